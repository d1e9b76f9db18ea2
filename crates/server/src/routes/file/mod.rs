//! Files.

mod change;
mod folder;
mod info;
mod list;
mod raw;
mod read;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;

/// The routes of files.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(info::exists))
        .routes(routes!(info::stat))
        .routes(routes!(read::read))
        .routes(routes!(read::read_stream))
        .routes(routes!(list::list_files))
        .routes(routes!(raw::get, raw::put))
        .routes(routes!(folder::get, folder::put))
        .routes(routes!(change::write))
        .routes(routes!(change::delete))
        .routes(routes!(change::rename_file))
        .routes(routes!(change::move_file))
        .routes(routes!(change::copy_file))
        .routes(routes!(change::make_directory))
        .routes(routes!(change::change_mode))
}
