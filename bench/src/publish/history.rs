//! Ratios by commit, so that a slow increase is seen.

use std::fs;
use std::io;
use std::path::Path;

/// Adds the ratios of a commit to the file, in place of earlier ones of the same commit.
pub fn add(file: &Path, commit: &str, ratios: &[(&str, f64)]) -> io::Result<()> {
    let before = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => HEADING.to_owned(),
        Err(error) => return Err(error),
    };
    let prefix = format!("{commit},");
    let kept = before.lines().filter(|line| !line.starts_with(&prefix)).map(str::to_owned);
    let added = ratios.iter().map(|(case, ratio)| format!("{commit},{case},{ratio:.3}"));
    let lines: Vec<String> = kept.chain(added).collect();
    fs::write(file, lines.join("\n") + "\n")
}

const HEADING: &str = "commit,case,CPU of Narrows / CPU of the bare forwarder\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_that_is_measured_again_has_its_new_ratios_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("history.csv");
        add(&file, "aaa", &[("point-1", 1.5)]).unwrap();
        add(&file, "bbb", &[("point-1", 1.25)]).unwrap();
        add(&file, "bbb", &[("point-1", 1.2), ("rows-1", 0.75)]).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text, format!("{HEADING}aaa,point-1,1.500\nbbb,point-1,1.200\nbbb,rows-1,0.750\n"));
    }
}
