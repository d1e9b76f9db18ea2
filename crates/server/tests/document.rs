//! The committed OpenAPI document is the one that the code makes.

#[test]
fn committed_document_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../openapi.json");
    let made = sandcrab_server::openapi_json();
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        made == committed,
        "openapi.json is out of date: run UPDATE_OPENAPI=1 cargo nextest run -p sandcrab-server document"
    );
}
