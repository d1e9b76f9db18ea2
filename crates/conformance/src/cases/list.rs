//! The list of all cases.

/// Calls a macro with every case: `module { case case … } …`.
#[macro_export]
macro_rules! every_case {
    ($then:ident) => {
        $then! {
            access {
                without_a_token
                with_a_wrong_token
                a_token_as_subprotocol
                a_foreign_host
                a_foreign_origin
                no_foreign_preflight
                a_request_id_comes_back
                a_bad_request_id_is_replaced
                values_of_variables_are_not_listed
            }
            concurrency {
                one_session_runs_in_order
                sessions_run_side_by_side
                killing_never_waits
                a_process_holds_the_session_until_it_runs
                looking_never_waits
                a_background_child_does_not_delay
            }
            disconnect {
                it_goes_on
                it_is_ended
                a_reader_of_a_process
            }
            environment {
                of_one_command
                of_one_command_in_a_session
                of_a_session
                of_the_sandbox
                nothing_of_the_server
                which_session_it_is
            }
            exactly_once {
                the_same_key_and_body
                the_same_key_with_another_body
                another_key_and_the_same_id
                at_the_same_moment
                of_a_process
                of_standard_input
                of_a_stream
                in_a_session
                keys_that_are_none
            }
            execute {
                every_field_is_there
                a_failing_command_is_no_error
                a_death_by_signal
                words_without_a_shell
                words_in_a_session_are_quoted
                a_program_that_is_not_there
                a_program_that_may_not_be_run
                a_folder_to_run_in
                standard_input_is_empty
                standard_input_is_given
                a_timeout_ends_it
                a_timeout_lets_it_clean_up
                silence_ends_it
                it_may_answer_at_once
                an_id_of_the_callers_choice
                an_output_limit_ends_it
                limits_of_the_kernel
                a_limit_that_cannot_hold
                what_it_left_running
            }
            output {
                bytes_are_exact
                bytes_that_are_no_text_are_told
                newlines_are_neither_dropped_nor_made
                an_answer_has_a_bound
                a_bound_respects_characters
                ranges_of_raw_output
                logs_from_a_cursor
                logs_cut_no_character
                late_output_is_kept
                long_lines_of_both_streams
            }
            process {
                an_id_used_again
                every_field_is_there
                every_status
                the_list
                one_that_is_not_there
                killing_what_has_ended
                killing_with_a_grace
                an_id_twice
                waiting
                signals
                killing_all
                cleaning_up
                it_goes_with_its_session_or_not
                one_that_is_lost
                one_that_waits_for_its_turn
            }
            protocol {
                a_connection_is_kept
                requests_one_after_the_other
                a_body_in_chunks
                a_body_that_is_announced
                a_body_that_is_too_large
                a_body_that_breaks_off
                head_is_get_without_a_body
                what_is_no_http
                what_can_be_read_in_two_ways
                single_headers_twice
                one_token_in_its_place
                odd_but_legal
                half_a_request
            }
            reference {
                session_process_output_is_not_lost_at_exit
                exit_in_a_streamed_command_completes
                bytes_of_sessions_are_exact
                a_syntax_error_is_the_commands
                serial_nothing_is_polled
                a_timeout_ends_what_runs
                delete_does_not_wait
                soak_a_silent_stream_lives
                no_child_survives_a_kill
                variables_and_traps_are_the_users
                a_process_id_is_no_path
                creating_a_session_returns_no_values
                duration_is_how_long_it_took
                fifty_sessions_at_once
            }
            requests {
                json_that_is_none
                a_coded_body
                a_refusal_repeats_no_value
                a_session_that_is_no_name
                too_many_arguments
                wrong_types_name_the_field
                wrong_session_fields_name_the_field
                a_missing_command
                fields_of_the_reference
                unknown_fields
                unknown_queries
                options_without_effect
                a_body_of_any_type
                a_nul_in_a_command
                a_bad_name_of_a_variable
                ids_that_are_none
                reserved_ids
                a_route_that_is_none
                a_method_that_is_none
                queries_that_make_no_sense
            }
            resume {
                by_header
                by_query
                from_every_cursor
                a_text_from_every_event
                of_a_command
                a_cursor_that_is_none
            }
            service {
                ping
                version
                health
                health_counts_what_is_there
                metrics
                openapi_describes_every_route
                openapi_promises_nothing_else
                events_tell_what_happens
            }
            session {
                every_field_is_there
                one_that_is_not_there
                an_id_twice
                a_folder_that_is_none
                state_is_kept
                a_folder_for_one_command
                defaults_of_its_commands
                interrupting_keeps_the_shell
                a_fork_has_the_same_state
                a_reset_with_and_without_state
                deleting_while_something_runs
                deleting_while_something_waits
            }
            stdin {
                written_and_closed
                given_first_and_left_open
                it_is_not_open
                of_a_session_command
                waiting_for_it_shows
                more_than_a_pipe
            }
            stream {
                a_command_that_waits_for_its_reader
                output_after_the_end
                of_a_command
                of_a_process
                it_is_live
                in_base64
                a_heartbeat
                without_following
                every_end_is_an_event
                a_refusal_is_no_stream
                dropped_bytes_are_a_gap
            }
            traps {
                any_text_works
                ending_the_shell
                ending_the_shell_in_a_stream
                other_ways_to_end_it
                restoring_without_a_word
                creating_over_a_dead_shell
                a_million_bytes_of_script
                a_timeout_keeps_the_shell
            }
            websocket {
                without_an_upgrade
                answers_look_like_http
                an_id_is_free_after_its_answer
                headers_count
                requests_run_side_by_side
                streams_share_it
                a_refused_stream
                cancelling
                a_cancelled_id_is_free
                bytes_are_exact
                one_key_over_both_transports
                a_long_answer
                a_long_refusal
                messages_that_close_it
                closing_harms_nothing
                frames_that_are_none
                targets_that_are_no_paths
                odd_paths
                an_id_twice_at_a_time
                from_a_foreign_page
            }
        }
    };
}
