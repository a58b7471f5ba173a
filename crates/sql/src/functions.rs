//! Built-in functions, as far as they matter to a proxy: those with state on one connection, and those that may run
//! anywhere.
//!
//! `name(` is not always the built-in function of that name: some names call a stored function if anything is between
//! them and the parenthesis, some with another number of arguments, and some on the servers that have no such function.
//! `tests/isolation/functions.rs` asks servers about every name in these lists.

use crate::flags::Flags;
use crate::token::{Lexer, Token, TokenKind, packed};

/// What a name before a parenthesis calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Function {
    /// What calling the built-in function adds to a statement.
    flags: Flags,
    /// When it is the built-in function,
    form: Form,
    /// and what the call adds to a statement if it is not.
    otherwise: Flags,
}

/// What a call must look like to be one of a built-in function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Any,
    /// With `sql_mode` `IGNORE_SPACE` servers do not insist on it. "Function Name Parsing and Resolution" in the manual.
    ParenthesisFollowsDirectly,
    /// The grammar of MariaDB has only this.
    TwoArguments,
    /// The same.
    AnyArgument,
    /// `JSON_TABLE(.., '$[*]' COLUMNS (..))`.
    Columns,
}

/// What `name(` calls.
pub(crate) fn named(name: &[u8]) -> Function {
    let mut slot = slot_of(name);
    // At least every second slot is empty, so this ends soon.
    while let Some(Some((known, function))) = TABLE.get(slot % TABLE.len()) {
        if known.as_bytes().eq_ignore_ascii_case(name) {
            return *function;
        }
        slot += 1;
    }
    UNKNOWN
}

impl Function {
    const fn always(flags: Flags) -> Function {
        Function { flags, form: Form::Any, otherwise: Flags::FUNCTION_CALL_UNKNOWN }
    }

    const fn if_it_is(form: Form, otherwise: Flags) -> Function {
        Function { flags: Flags::NONE, form, otherwise }
    }

    /// What its call adds to a statement, whatever it looks like, if the name is that of the built-in function.
    pub(crate) fn flags(self) -> Flags {
        self.flags
    }

    /// What a call adds to a statement. `after` is behind its parenthesis, which `follows_directly`.
    #[inline]
    pub(crate) fn flags_of_call(self, follows_directly: bool, after: &Lexer<'_>) -> Flags {
        let is_built_in = match self.form {
            Form::Any => true,
            Form::ParenthesisFollowsDirectly => follows_directly,
            Form::TwoArguments => arguments(after.clone()) == Some(2),
            Form::AnyArgument => arguments(after.clone()) != Some(0),
            Form::Columns => has_columns(after.clone()),
        };
        if is_built_in { self.flags } else { self.otherwise }
    }
}

const UNKNOWN: Function = Function::always(Flags::FUNCTION_CALL_UNKNOWN);

/// Tokens that are looked at after a parenthesis: calls may be nested, and each looks.
const MOST_TOKENS: usize = 32;

/// The tokens up to the closing parenthesis, each with how many others are open there.
fn inside<'a>(mut lexer: Lexer<'a>) -> impl Iterator<Item = (Token<'a>, usize)> {
    let mut depth = 0usize;
    std::iter::from_fn(move || {
        let token = lexer.next();
        let before = depth;
        match token.text {
            _ if token.kind == TokenKind::End => return None,
            b"(" => depth += 1,
            b")" => depth = depth.checked_sub(1)?,
            _ => {}
        }
        Some((token, before))
    })
}

/// How many arguments a call has; `None`: too long to be counted.
fn arguments(lexer: Lexer<'_>) -> Option<usize> {
    let (mut tokens, mut commas) = (0, 0);
    for (token, depth) in inside(lexer).take(MOST_TOKENS) {
        tokens += 1;
        commas += usize::from(depth == 0 && token.is_symbol(b','));
    }
    match tokens {
        0 => Some(0),
        MOST_TOKENS => None,
        _ => Some(commas + 1),
    }
}

fn has_columns(lexer: Lexer<'_>) -> bool {
    let mut after_text = false;
    inside(lexer).take(MOST_TOKENS).any(|(token, depth)| {
        let found = depth == 0 && after_text && token.is_word("COLUMNS");
        after_text = token.kind == TokenKind::Text;
        found
    })
}

/// Where the search for a name begins: any hash of its length and first eight letters will do.
const fn slot_of(name: &[u8]) -> usize {
    let (head, tail) = match name.split_at_checked(8) {
        Some((head, tail)) => (head, tail),
        None => (name, [].as_slice()),
    };
    let last = match tail {
        [.., last] => packed(&[*last]),
        [] => 0,
    };
    let mixed = (packed(head) ^ (last << 7) ^ name.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 54) as usize
}

type Slot = Option<(&'static str, Function)>;

/// A hash table of the names below with open addressing, built at compile time.
static TABLE: [Slot; 1024] = {
    let mut table: [Slot; 1024] = [None; 1024];
    let mut rest = STATEFUL.as_slice();
    while let [(name, flags), tail @ ..] = rest {
        place(&mut table, name, Function::always(*flags));
        rest = tail;
    }
    let mut lists = LISTS;
    while let [(names, function), others @ ..] = lists {
        let mut rest = *names;
        while let [name, tail @ ..] = rest {
            place(&mut table, name, *function);
            rest = tail;
        }
        lists = others;
    }
    table
};

#[allow(clippy::indexing_slicing)] // Runs at compile time, where a mistake is a build error.
const fn place(table: &mut [Slot; 1024], name: &'static str, function: Function) {
    let mut slot = slot_of(name.as_bytes()) % table.len();
    while table[slot].is_some() {
        slot = (slot + 1) % table.len();
    }
    table[slot] = Some((name, function));
}

/// Functions that read or change the state of one connection or one server.
const STATEFUL: [(&str, Flags); 12] = [
    ("LAST_INSERT_ID", Flags::LAST_INSERT_ID.union(Flags::LAST_INSERT_ID_CALL)),
    ("FOUND_ROWS", Flags::FOUND_ROWS),
    ("ROW_COUNT", Flags::ROW_COUNT),
    ("GET_LOCK", Flags::GET_LOCK),
    ("RELEASE_LOCK", Flags::RELEASE_LOCK),
    ("RELEASE_ALL_LOCKS", Flags::RELEASE_ALL_LOCKS),
    ("IS_FREE_LOCK", Flags::SERVER_FUNCTION.union(Flags::ASKS_ABOUT_LOCK)),
    ("IS_USED_LOCK", Flags::SERVER_FUNCTION.union(Flags::ASKS_ABOUT_LOCK).union(Flags::CONNECTION_ID)),
    ("CONNECTION_ID", Flags::CONNECTION_ID),
    // An XPath expression may name a user variable: `'$@a'`.
    ("EXTRACTVALUE", Flags::USER_VARIABLE),
    ("UPDATEXML", Flags::USER_VARIABLE),
    ("LASTVAL", Flags::FUNCTION_CALL_UNKNOWN.union(Flags::LAST_VALUE)),
];

/// All other names, by what they call.
const LISTS: &[(&[&str], Function)] = &[
    (HARMLESS, Function::always(Flags::NONE)),
    (OF_SERVER, Function::always(Flags::SERVER_FUNCTION)),
    (OF_MYSQL, Function::always(Flags::OF_MYSQL)),
    (OF_SERVER_OF_MYSQL, Function::always(Flags::OF_MYSQL.union(Flags::SERVER_FUNCTION))),
    (OF_MARIADB, Function::always(Flags::OF_MARIADB)),
    (OF_SERVER_OF_MARIADB, Function::always(Flags::OF_MARIADB.union(Flags::SERVER_FUNCTION))),
    (DIRECTLY, Function::if_it_is(Form::ParenthesisFollowsDirectly, Flags::FUNCTION_CALL_UNKNOWN)),
    (DIRECTLY_ON_MARIADB, Function::if_it_is(Form::ParenthesisFollowsDirectly, Flags::OF_MYSQL)),
    (DIRECTLY_ON_MYSQL, Function::if_it_is(Form::ParenthesisFollowsDirectly, Flags::OF_MARIADB)),
    (
        DIRECTLY_AND_OF_MARIADB,
        Function {
            flags: Flags::OF_MARIADB,
            form: Form::ParenthesisFollowsDirectly,
            otherwise: Flags::FUNCTION_CALL_UNKNOWN,
        },
    ),
    (&["POINT"], Function::if_it_is(Form::TwoArguments, Flags::OF_MYSQL)),
    (GEOMETRIES, Function::if_it_is(Form::AnyArgument, Flags::OF_MYSQL)),
    (&["JSON_TABLE"], Function::if_it_is(Form::Columns, Flags::OF_MYSQL)),
];

/// Functions without effects whose result does not depend on the server or connection, and keywords that may precede a
/// parenthesis.
#[rustfmt::skip]
const HARMLESS: &[&str] = &[
    "ABS", "ACOS", "ADDTIME", "AES_DECRYPT", "AES_ENCRYPT", "ALL", "AND", "ANY", "AS", "ASCII", "ASIN", "ATAN",
    "ATAN2", "AVG", "BETWEEN", "BIGINT", "BIN", "BINARY", "BIT", "BIT_COUNT", "BIT_LENGTH", "BLOB", "BY", "CASE",
    "CEIL", "CEILING", "CHAR", "CHARACTER_LENGTH", "CHARSET", "CHAR_LENGTH", "COALESCE", "COERCIBILITY",
    "COLLATION", "COMPRESS", "CONCAT", "CONCAT_WS", "CONV", "CONVERT", "CONVERT_TZ", "COS", "COT", "CRC32",
    "CURRENT_DATE", "CURRENT_ROLE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "DATABASE", "DATE",
    "DATEDIFF", "DATETIME", "DATE_FORMAT", "DAY", "DAYNAME", "DAYOFMONTH", "DAYOFWEEK", "DAYOFYEAR", "DEC",
    "DECIMAL", "DEFAULT", "DEGREES", "DISTINCT", "DISTINCTROW", "DIV", "DO", "DOUBLE", "ELSE", "ELT", "EXCEPT",
    "EXISTS", "EXP", "EXPORT_SET", "FIELD", "FIND_IN_SET", "FLOAT", "FLOOR", "FORMAT", "FROM", "FROM_BASE64",
    "FROM_DAYS", "FROM_UNIXTIME", "GET_FORMAT", "GREATEST", "HAVING", "HEX", "HOUR", "IF", "IFNULL", "IN", "INDEX",
    "INET6_ATON", "INET6_NTOA", "INET_ATON", "INET_NTOA", "INSERT", "INSTR", "INT", "INTEGER", "INTERSECT",
    "INTERVAL", "IS", "IS_IPV4", "IS_IPV4_COMPAT", "IS_IPV4_MAPPED", "IS_IPV6", "JOIN", "JSON_ARRAY",
    "JSON_ARRAY_APPEND", "JSON_ARRAY_INSERT", "JSON_CONTAINS", "JSON_CONTAINS_PATH", "JSON_DEPTH", "JSON_EXTRACT",
    "JSON_INSERT", "JSON_KEYS", "JSON_LENGTH", "JSON_MERGE", "JSON_MERGE_PATCH", "JSON_MERGE_PRESERVE",
    "JSON_OBJECT", "JSON_OVERLAPS", "JSON_PRETTY", "JSON_QUOTE", "JSON_REMOVE", "JSON_REPLACE", "JSON_SEARCH",
    "JSON_SET", "JSON_TYPE", "JSON_UNQUOTE", "JSON_VALID", "JSON_VALUE", "KEY", "LAST_DAY", "LAST_VALUE", "LCASE",
    "LEAST", "LEFT", "LENGTH", "LIKE", "LIMIT", "LN", "LOCALTIME", "LOCALTIMESTAMP", "LOCATE", "LOG", "LOG10",
    "LOG2", "LOWER", "LPAD", "LTRIM", "MAKEDATE", "MAKETIME", "MAKE_SET", "MATCH", "MBRCONTAINS", "MBRDISJOINT",
    "MBREQUALS", "MBRINTERSECTS", "MBROVERLAPS", "MBRTOUCHES", "MBRWITHIN", "MD5", "MICROSECOND", "MINUTE", "MOD",
    "MONTH", "MONTHNAME", "NAME_CONST", "NCHAR", "NOT", "NULLIF", "NUMERIC", "NVARCHAR", "OCT", "OCTET_LENGTH",
    "OFFSET", "ON", "OR", "ORD", "ORDER", "OVER", "PARTITION", "PERIOD_ADD", "PERIOD_DIFF", "PI", "POW", "POWER",
    "PRIMARY", "QUARTER", "QUOTE", "RADIANS", "RAND", "RANDOM_BYTES", "REAL", "REGEXP", "REGEXP_INSTR",
    "REGEXP_REPLACE", "REGEXP_SUBSTR", "REPEAT", "REPLACE", "REVERSE", "RIGHT", "RLIKE", "ROUND", "ROW", "ROWS",
    "ROW_NUMBER", "RPAD", "RTRIM", "SCHEMA", "SECOND", "SEC_TO_TIME", "SELECT", "SHA", "SHA1", "SHA2", "SIGN",
    "SIGNED", "SIN", "SLEEP", "SOME", "SOUNDEX", "SPACE", "SQRT", "STRAIGHT_JOIN", "STRCMP", "STR_TO_DATE",
    "ST_AREA", "ST_ASBINARY", "ST_ASGEOJSON", "ST_ASTEXT", "ST_ASWKB", "ST_ASWKT", "ST_BUFFER", "ST_CENTROID",
    "ST_CONTAINS", "ST_CONVEXHULL", "ST_CROSSES", "ST_DIFFERENCE", "ST_DIMENSION", "ST_DISJOINT", "ST_DISTANCE",
    "ST_DISTANCE_SPHERE", "ST_ENDPOINT", "ST_ENVELOPE", "ST_EQUALS", "ST_EXTERIORRING", "ST_GEOMCOLLFROMTEXT",
    "ST_GEOMCOLLFROMWKB", "ST_GEOMETRYN", "ST_GEOMETRYTYPE", "ST_GEOMFROMGEOJSON", "ST_GEOMFROMTEXT",
    "ST_GEOMFROMWKB", "ST_INTERIORRINGN", "ST_INTERSECTION", "ST_INTERSECTS", "ST_ISCLOSED", "ST_ISEMPTY",
    "ST_ISSIMPLE", "ST_LENGTH", "ST_LINEFROMTEXT", "ST_NUMGEOMETRIES", "ST_NUMINTERIORRINGS", "ST_NUMPOINTS",
    "ST_OVERLAPS", "ST_POINTFROMTEXT", "ST_POINTFROMWKB", "ST_POINTN", "ST_POLYFROMTEXT", "ST_POLYGONFROMTEXT",
    "ST_SRID", "ST_STARTPOINT", "ST_SYMDIFFERENCE", "ST_TOUCHES", "ST_UNION", "ST_WITHIN", "ST_X", "ST_Y",
    "SUBSTRING_INDEX", "SUBTIME", "TAN", "THEN", "TIME", "TIMEDIFF", "TIMESTAMP", "TIMESTAMPADD", "TIMESTAMPDIFF",
    "TIME_FORMAT", "TIME_TO_SEC", "TO_BASE64", "TO_DAYS", "TO_SECONDS", "TRUNCATE", "UCASE", "UNCOMPRESS",
    "UNCOMPRESSED_LENGTH", "UNHEX", "UNION", "UNIX_TIMESTAMP", "UNSIGNED", "UPPER", "USER", "USING", "UTC_DATE",
    "UTC_TIME", "UTC_TIMESTAMP", "UUID", "VALUE", "VALUES", "VARBINARY", "VARCHAR", "VERSION", "WEEK", "WEEKDAY",
    "WEEKOFYEAR", "WEIGHT_STRING", "WHEN", "WHERE", "XOR", "YEAR", "YEARWEEK",
];

/// Functions that leave nothing on the connection, and whose result depends on the server or the moment.
const OF_SERVER: &[&str] = &["BENCHMARK", "LOAD_FILE", "MASTER_POS_WAIT", "UUID_SHORT"];

/// As [`HARMLESS`], on MySQL only. A MariaDB server calls a stored function of that name.
#[rustfmt::skip]
const OF_MYSQL: &[&str] = &[
    "AGAINST", "ANY_VALUE", "BIN_TO_UUID", "COLUMNS", "FORMAT_BYTES", "FORMAT_PICO_TIME", "GEOMCOLLECTION",
    "GROUPING", "IS_UUID", "JSON_SCHEMA_VALID", "JSON_SCHEMA_VALIDATION_REPORT", "JSON_STORAGE_SIZE", "LATERAL",
    "MBRCOVEREDBY", "MBRCOVERS", "MEMBER", "OF", "REGEXP_LIKE", "ROLLUP", "STATEMENT_DIGEST",
    "STATEMENT_DIGEST_TEXT", "ST_BUFFER_STRATEGY", "ST_GEOHASH", "ST_ISVALID", "ST_LATFROMGEOHASH", "ST_LATITUDE",
    "ST_LONGFROMGEOHASH", "ST_LONGITUDE", "ST_MAKEENVELOPE", "ST_NUMINTERIORRING", "ST_POINTFROMGEOHASH",
    "ST_SIMPLIFY", "ST_SWAPXY", "ST_TRANSFORM", "ST_VALIDATE", "UUID_TO_BIN", "VALIDATE_PASSWORD_STRENGTH",
];

#[rustfmt::skip]
const OF_SERVER_OF_MYSQL: &[&str] = &[
    "GTID_SUBSET", "GTID_SUBTRACT", "ICU_VERSION", "PS_CURRENT_THREAD_ID", "PS_THREAD_ID", "ROLES_GRAPHML",
    "SOURCE_POS_WAIT", "WAIT_FOR_EXECUTED_GTID_SET",
];

/// As [`HARMLESS`], on MariaDB only.
#[rustfmt::skip]
const OF_MARIADB: &[&str] = &[
    "ADD_MONTHS", "ASBINARY", "ASTEXT", "ASWKB", "ASWKT", "CENTROID", "CHR", "COLUMN_CHECK", "COLUMN_CREATE",
    "COLUMN_EXISTS", "COLUMN_GET", "COLUMN_JSON", "COLUMN_LIST", "CRC32C", "DECODE", "DECODE_ORACLE", "DES_DECRYPT",
    "DES_ENCRYPT", "ENCODE", "ENCRYPT", "JSON_COMPACT", "JSON_DETAILED", "JSON_EQUALS", "JSON_EXISTS", "JSON_LOOSE",
    "JSON_NORMALIZE", "JSON_QUERY", "LENGTHB", "NATURAL_SORT_KEY", "NVL", "NVL2", "SFORMAT", "TO_CHAR", "WITHIN",
];

#[rustfmt::skip]
const OF_SERVER_OF_MARIADB: &[&str] = &[
    "BINLOG_GTID_POS", "MASTER_GTID_WAIT", "SYS_GUID", "UUID_V4", "UUID_V7",
];

/// As [`HARMLESS`], if the parenthesis follows directly.
#[rustfmt::skip]
const DIRECTLY: &[&str] = &[
    "ADDDATE", "BIT_AND", "BIT_OR", "BIT_XOR", "CAST", "COUNT", "CURDATE", "CURTIME", "DATE_ADD", "DATE_SUB",
    "EXTRACT", "GROUP_CONCAT", "JSON_ARRAYAGG", "JSON_OBJECTAGG", "MAX", "MID", "MIN", "NOW", "POSITION",
    "SESSION_USER", "STD", "STDDEV", "STDDEV_POP", "STDDEV_SAMP", "SUBDATE", "SUBSTR", "SUBSTRING", "SUM",
    "SYSTEM_USER", "TRIM", "VARIANCE", "VAR_POP", "VAR_SAMP",
];

/// The same, but MySQL does not insist on it.
#[rustfmt::skip]
const DIRECTLY_ON_MARIADB: &[&str] = &[
    "CUME_DIST", "DENSE_RANK", "FIRST_VALUE", "LAG", "LEAD", "NTH_VALUE", "NTILE", "PERCENT_RANK", "RANK",
];

/// The same, but MariaDB does not.
const DIRECTLY_ON_MYSQL: &[&str] = &["SYSDATE"];

const DIRECTLY_AND_OF_MARIADB: &[&str] = &["MEDIAN", "PERCENTILE_CONT", "PERCENTILE_DISC"];

const GEOMETRIES: &[&str] =
    &["GEOMETRYCOLLECTION", "LINESTRING", "MULTILINESTRING", "MULTIPOINT", "MULTIPOLYGON", "POLYGON"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dialect, classify};

    /// The rows of `tests/vectors/functions.txt`.
    #[test]
    fn what_is_called_depends_on_the_server_and_on_how_it_is_written() {
        let rows = include_str!("../tests/vectors/functions.txt").lines();
        let mut wrong = Vec::new();
        let mut count = 0;
        for row in rows.filter(|row| !row.starts_with('#') && !row.is_empty()) {
            let (wanted, query) = row.split_once('|').expect("two parts");
            let query = query.trim().replace("\\n", "\n");
            let is_certain = |dialect| classify(query.as_bytes()).on(dialect).is_certain(query.as_bytes());
            let found = match (is_certain(Dialect::MySql), is_certain(Dialect::MariaDb)) {
                (true, true) => "both",
                (true, false) => "mysql",
                (false, true) => "mariadb",
                (false, false) => "neither",
            };
            if found != wanted.trim() {
                wrong.push(format!("{found} | {query}"));
            }
            count += 1;
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert!(count > 45, "{count}");
    }

    #[test]
    fn finds_every_name_in_any_case_and_no_other() {
        for (name, flags) in STATEFUL {
            assert_eq!(named(name.to_lowercase().as_bytes()), Function::always(flags), "{name}");
        }
        for (names, function) in LISTS {
            for name in *names {
                assert_eq!(named(name.as_bytes()), *function, "{name}");
                assert_eq!(named(format!("{name}_").as_bytes()), UNKNOWN, "{name}");
            }
        }
        assert_eq!(named(b""), UNKNOWN);
        assert!(TABLE.iter().flatten().count() * 2 < TABLE.len());
    }
}
