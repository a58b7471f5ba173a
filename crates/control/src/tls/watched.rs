//! Which files keys and certificates come from: when one changes, all are read again.

use std::path::{Path, PathBuf};

use narrows_proxy::snapshot::SslParamsRow;

use super::{KeyFile, files, text};
use crate::files::FileMark;
use crate::variables::Values;

/// All files, and the folders of authorities and revocations with what is in them, as they are now.
pub(super) fn files(datadir: &Path, values: &Values, rows: &[SslParamsRow]) -> Vec<KeyFile> {
    let mut paths: Vec<PathBuf> = OWN.iter().map(|name| datadir.join(name)).collect();
    let variable = |name: &str| text(values, &format!("mysql-ssl_p2s_{name}")).to_owned();
    let mut named = ["ca", "cert", "key", "crl"].map(variable).to_vec();
    let mut folders = ["capath", "crlpath"].map(variable).to_vec();
    for row in rows {
        named.extend([&row.ssl_ca, &row.ssl_cert, &row.ssl_key, &row.ssl_crl].map(String::clone));
        folders.extend([&row.ssl_capath, &row.ssl_crlpath].map(String::clone));
    }
    paths.extend(named.into_iter().filter(|path| !path.is_empty()).map(PathBuf::from));
    for folder in folders.into_iter().filter(|path| !path.is_empty()).map(PathBuf::from) {
        paths.extend(files::of_folder(&folder).unwrap_or_default());
        paths.push(folder);
    }
    paths.sort();
    paths.dedup();
    paths
        .into_iter()
        .map(|path| {
            let mark = FileMark::of(&path);
            (path, mark)
        })
        .collect()
}

/// Those of the data folder.
const OWN: [&str; 5] =
    ["proxysql-ca.pem", "proxysql-cert.pem", "proxysql-key.pem", "private_key.pem", "public_key.pem"];
