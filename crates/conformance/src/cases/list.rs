//! The list of all cases.

/// Calls a macro with every case: `module { case case … } …`.
#[macro_export]
macro_rules! every_case {
    ($then:ident) => {
        $then! {
            access {
                missing_token
                wrong_token
                token_as_subprotocol
                foreign_host
                foreign_origin
                foreign_preflight
                request_id_is_returned
                invalid_request_id_is_replaced
                variable_values_are_not_listed
            }
            backup {
                round_trip
                rules
                archive_at_a_path
                damaged_archives
                invalid_options
                expiry
                concurrent_writers
                transfers_that_fail
            }
            concurrency {
                session_commands_run_in_order
                sessions_run_concurrently
                kill_does_not_wait
                process_start_precedes_later_commands
                reads_do_not_wait
                background_child_does_not_delay
            }
            disconnect {
                command_continues
                command_is_killed_on_request
                process_reader_disconnects
            }
            environment {
                variables_of_a_command
                variables_of_a_session_command
                variables_of_a_session
                variables_of_the_sandbox
                server_variables_are_hidden
                session_selection
            }
            exactly_once {
                same_key_and_body
                same_key_with_another_body
                another_key_and_same_id
                simultaneous_requests
                of_a_process
                initial_standard_input
                of_a_stream
                in_a_session
                invalid_keys
            }
            execute {
                response_fields
                failing_command_is_not_an_error
                end_by_signal
                arguments_without_a_shell
                arguments_in_a_session_are_quoted
                missing_program
                program_without_permission
                working_directory
                default_standard_input_is_empty
                given_standard_input
                timeout_ends_the_command
                timeout_has_a_grace_period
                idle_timeout_ends_the_command
                background_responds_at_once
                id_chosen_by_the_client
                output_limit_ends_the_command
                kernel_limits
                unenforceable_limit
                leftovers
            }
            file_change {
                delete
                directories_that_must_stay
                rename_move_and_copy
                move_across_file_systems
                directories_and_modes
            }
            file_content {
                text_and_bytes
                mode_link_and_append
                what_cannot_be_read_or_written
                too_large_to_read
                stream_of_text
                lists
            }
            file_info {
                exists
                metadata
                paths_of_sessions
                workspace_alias
                invalid_paths
            }
            file_raw {
                bytes_are_exact
                ranges
                conditions
                unusual_files
                files_that_change_while_they_are_sent
            }
            folder {
                round_trip
                old_content_is_replaced
                hostile_archives
                what_is_refused
                disconnect
            }
            output {
                bytes_are_exact
                invalid_utf8_is_reported
                newlines_are_unchanged
                response_size_is_limited
                truncation_respects_characters
                ranges_of_raw_output
                logs_from_a_cursor
                logs_do_not_split_characters
                late_output_is_recorded
                long_lines_of_both_streams
            }
            process {
                metrics_of_the_tree
                reused_id
                response_fields
                statuses
                list_processes
                not_found
                kill_after_the_end
                kill_with_grace_period
                duplicate_id
                wait_for_the_end
                send_signals
                kill_all
                cleanup
                on_session_end
                lost_process
                queued_command
            }
            protocol {
                keep_alive
                pipelined_requests
                chunked_body
                expect_continue
                body_too_large
                incomplete_body
                head_request
                malformed_http
                ambiguous_requests
                duplicate_headers
                token_position
                unusual_requests
                incomplete_request
            }
            reference {
                session_process_output_is_not_lost_at_exit
                exit_in_a_streamed_command_completes
                bytes_of_sessions_are_exact
                syntax_error_is_a_result
                serial_no_polling
                timeout_ends_running_processes
                delete_does_not_wait
                soak_silent_stream_stays_open
                kill_ends_all_children
                variables_and_traps_of_the_user
                process_id_is_not_a_path
                create_session_returns_no_values
                duration_is_the_run_time
                fifty_concurrent_sessions
            }
            requests {
                invalid_json
                compressed_body
                errors_do_not_repeat_values
                invalid_session_id
                too_many_arguments
                wrong_types_name_the_field
                wrong_session_fields_name_the_field
                missing_command
                fields_of_the_reference
                unknown_fields
                unknown_fields_of_every_route
                invalid_values_are_explained
                unknown_queries
                options_without_effect
                missing_content_type
                nul_in_a_command
                invalid_variable_name
                invalid_ids
                reserved_ids
                unknown_route
                unsupported_method
                invalid_query_values
            }
            resume {
                resume_by_header
                resume_by_query
                resume_from_every_cursor
                resume_text_from_every_event
                of_a_command
                invalid_cursor
            }
            search {
                lines_that_match
                streamed_matches
                invalid_searches
                names
                replacements
            }
            service {
                response_fields
                failures_are_restarted
                history_is_bounded
                restart_policies
                stop_during_a_delay
                restart_on_request
                daemons_end_with_the_service
                simultaneous_starts
                same_key_and_body
                ids_are_reused
                health_flips
                unhealthy_services_are_restarted
                foreign_port
                readiness
                stream_follows_restarts
                changes_are_events
                of_a_session
                invalid_requests
                unknown_services
            }
            server {
                ping
                version
                health
                health_counts
                metrics
                openapi_describes_every_route
                openapi_describes_only_existing_routes
                server_events
            }
            session {
                response_fields
                not_found
                duplicate_id
                missing_working_directory
                state_is_kept
                working_directory_of_one_command
                command_defaults
                interrupt_keeps_the_shell
                fork_has_the_same_state
                fork_of_a_large_state_is_refused
                reset_with_and_without_state
                delete_while_a_command_runs
                delete_while_a_command_is_queued
            }
            stdin {
                written_and_closed
                initial_input_then_open
                not_open
                session_command
                waiting_for_input_is_reported
                more_than_a_pipe_holds
            }
            port {
                list
                ready
                process_that_ends
                invalid_requests
            }
            exposure {
                exposed_and_unexposed
                of_a_process
                the_same_request_twice
                invalid_requests
                the_port_of_the_server
                no_program_listens
                other_names
                events
            }
            stream {
                command_waits_for_its_reader
                output_after_the_end
                of_a_command
                of_a_process
                output_is_live
                base64_encoding
                heartbeat
                follow_false
                end_events
                errors_are_not_streams
                dropped_bytes_are_reported
            }
            terminal {
                every_field_is_there
                one_id_is_one_terminal
                the_id_of_a_process_is_taken
                one_that_is_not_there
                invalid_requests
                input_as_bytes_text_and_keys
                cursor_keys_follow_the_mode
                a_full_queue_is_told
                an_interrupt_is_not_held_up
                a_size_is_seen
                the_screen_as_text_and_cells
                waiting
                a_wait_keeps_nothing
                a_recording
                it_is_an_execution
                deleting_ends_daemons
                it_starts_from_a_session
                queries_are_answered
            }
            terminal_socket {
                without_an_upgrade
                what_is_refused
                a_repaint_then_what_happens
                every_end_is_a_frame
                resuming_from_a_cursor
                queries_are_not_replayed
                sizes_of_several_viewers
                sizes_in_quick_succession
                frames_that_are_none
                a_full_queue_is_told
                a_viewer_that_only_watches
                the_terminal_of_a_session
            }
            traps {
                hostile_text
                ending_the_shell
                ending_the_shell_in_a_stream
                other_ways_to_end_the_shell
                on_shell_exit_restore
                create_replaces_a_dead_shell
                script_of_a_million_bytes
                timeout_keeps_the_shell
            }
            watch {
                changes
                selected_changes
                invalid_watches
                versions
            }
            websocket {
                missing_upgrade
                responses_match_http
                id_is_free_after_the_response
                headers_apply
                requests_run_concurrently
                streams_share_a_socket
                refused_stream
                cancel
                cancelled_id_is_free
                bytes_are_exact
                same_key_over_both_transports
                long_response
                too_large_for_a_frame
                long_error
                messages_that_close_the_socket
                close_does_not_affect_commands
                invalid_frames
                invalid_targets
                unusual_paths
                concurrent_duplicate_id
                foreign_page
            }
        }
    };
}
