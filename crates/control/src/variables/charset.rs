//! The character sets of MySQL and MariaDB and the collation each one starts with.

/// Names of the character sets.
pub const CHARSETS: &[&str] = &names();

/// Name and default collation. For utf8mb4 the one that both MySQL and MariaDB have.
const DEFAULTS: &[(&str, &str)] = &[
    ("armscii8", "armscii8_general_ci"),
    ("ascii", "ascii_general_ci"),
    ("big5", "big5_chinese_ci"),
    ("binary", "binary"),
    ("cp1250", "cp1250_general_ci"),
    ("cp1251", "cp1251_general_ci"),
    ("cp1256", "cp1256_general_ci"),
    ("cp1257", "cp1257_general_ci"),
    ("cp850", "cp850_general_ci"),
    ("cp852", "cp852_general_ci"),
    ("cp866", "cp866_general_ci"),
    ("cp932", "cp932_japanese_ci"),
    ("dec8", "dec8_swedish_ci"),
    ("eucjpms", "eucjpms_japanese_ci"),
    ("euckr", "euckr_korean_ci"),
    ("gb18030", "gb18030_chinese_ci"),
    ("gb2312", "gb2312_chinese_ci"),
    ("gbk", "gbk_chinese_ci"),
    ("geostd8", "geostd8_general_ci"),
    ("greek", "greek_general_ci"),
    ("hebrew", "hebrew_general_ci"),
    ("hp8", "hp8_english_ci"),
    ("keybcs2", "keybcs2_general_ci"),
    ("koi8r", "koi8r_general_ci"),
    ("koi8u", "koi8u_general_ci"),
    ("latin1", "latin1_swedish_ci"),
    ("latin2", "latin2_general_ci"),
    ("latin5", "latin5_turkish_ci"),
    ("latin7", "latin7_general_ci"),
    ("macce", "macce_general_ci"),
    ("macroman", "macroman_general_ci"),
    ("sjis", "sjis_japanese_ci"),
    ("swe7", "swe7_swedish_ci"),
    ("tis620", "tis620_thai_ci"),
    ("ujis", "ujis_japanese_ci"),
    ("utf8", "utf8_general_ci"),
    ("utf8mb3", "utf8mb3_general_ci"),
    ("utf8mb4", "utf8mb4_general_ci"),
];

const fn names() -> [&'static str; DEFAULTS.len()] {
    let mut names = [""; DEFAULTS.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = DEFAULTS[i].0;
        i += 1;
    }
    names
}

/// The collation a character set starts with.
pub fn default_collation(charset: &str) -> Option<&'static str> {
    DEFAULTS.iter().find(|(name, _)| *name == charset).map(|(_, collation)| *collation)
}

/// Whether the collation is one of that character set, as its name tells.
pub fn belongs(collation: &str, charset: &str) -> bool {
    let collation = collation.to_ascii_lowercase();
    let named_after = |name: &str| {
        collation.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    match charset {
        // Two names of one character set.
        "utf8" | "utf8mb3" => named_after("utf8") || named_after("utf8mb3"),
        _ => named_after(charset),
    }
}
