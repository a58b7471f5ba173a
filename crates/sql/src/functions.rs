//! Built-in functions, as far as they matter to a proxy: those with state on one connection, and those that may run
//! anywhere.

use crate::flags::Flags;
use crate::token::packed;

/// The facts that calling `name(` adds to a statement.
pub(crate) fn flags_of(name: &[u8]) -> Flags {
    let mut slot = slot_of(name);
    // At least every second slot is empty, so this ends soon.
    while let Some(Some((known, flags))) = TABLE.get(slot % TABLE.len()) {
        if known.as_bytes().eq_ignore_ascii_case(name) {
            return *flags;
        }
        slot += 1;
    }
    Flags::FUNCTION_CALL_UNKNOWN
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

type Slot = Option<(&'static str, Flags)>;

/// A hash table of the names below with open addressing, built at compile time.
static TABLE: [Slot; 1024] = {
    let mut table: [Slot; 1024] = [None; 1024];
    let mut rest = STATEFUL.as_slice();
    while let [(name, flags), tail @ ..] = rest {
        place(&mut table, name, *flags);
        rest = tail;
    }
    let mut rest = HARMLESS;
    while let [name, tail @ ..] = rest {
        place(&mut table, name, Flags::NONE);
        rest = tail;
    }
    let mut rest = OF_SERVER;
    while let [name, tail @ ..] = rest {
        place(&mut table, name, Flags::SERVER_FUNCTION);
        rest = tail;
    }
    table
};

#[allow(clippy::indexing_slicing)] // Runs at compile time, where a mistake is a build error.
const fn place(table: &mut [Slot; 1024], name: &'static str, flags: Flags) {
    let mut slot = slot_of(name.as_bytes()) % table.len();
    while table[slot].is_some() {
        slot = (slot + 1) % table.len();
    }
    table[slot] = Some((name, flags));
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

/// Functions without effects whose result does not depend on the server or connection, and keywords that may precede a
/// parenthesis.
#[rustfmt::skip]
const HARMLESS: &[&str] = &[
    "ABS", "ACOS", "ADDDATE", "ADDTIME", "ADD_MONTHS", "AES_DECRYPT", "AES_ENCRYPT", "AGAINST", "ALL", "AND",
    "ANY", "ANY_VALUE", "AS", "ASBINARY", "ASCII", "ASIN", "ASTEXT", "ASWKB", "ASWKT", "ATAN", "ATAN2", "AVG",
    "BETWEEN", "BIGINT", "BIN", "BINARY", "BIN_TO_UUID", "BIT", "BIT_AND", "BIT_COUNT", "BIT_LENGTH", "BIT_NOT",
    "BIT_OR", "BIT_XOR", "BLOB", "BY", "CASE", "CAST", "CEIL", "CEILING", "CENTROID", "CHAR", "CHARACTER_LENGTH",
    "CHARSET", "CHAR_LENGTH", "CHR", "COALESCE", "COERCIBILITY", "COLLATION", "COLUMNS", "COLUMN_CHECK",
    "COLUMN_CREATE", "COLUMN_EXISTS", "COLUMN_GET", "COLUMN_JSON", "COLUMN_LIST", "COMPRESS", "CONCAT",
    "CONCAT_WS", "CONV", "CONVERT", "CONVERT_TZ", "COS", "COT", "COUNT", "CRC32", "CRC32C", "CUME_DIST",
    "CURDATE", "CURRENT_DATE", "CURRENT_ROLE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "CURTIME",
    "DATABASE", "DATE", "DATEDIFF", "DATETIME", "DATE_ADD", "DATE_FORMAT", "DATE_SUB", "DAY", "DAYNAME",
    "DAYOFMONTH", "DAYOFWEEK", "DAYOFYEAR", "DEC", "DECIMAL", "DECODE", "DECODE_ORACLE", "DEFAULT", "DEGREES",
    "DENSE_RANK", "DES_DECRYPT", "DES_ENCRYPT", "DISTINCT", "DISTINCTROW", "DIV", "DO", "DOUBLE", "ELSE", "ELT",
    "ENCODE", "ENCRYPT", "EXCEPT", "EXISTS", "EXP", "EXPORT_SET", "EXTRACT", "FIELD",
    "FIND_IN_SET", "FIRST_VALUE", "FLOAT", "FLOOR", "FORMAT", "FORMAT_BYTES", "FORMAT_PICO_TIME", "FROM",
    "FROM_BASE64", "FROM_DAYS", "FROM_UNIXTIME", "GEOMCOLLECTION", "GEOMETRYCOLLECTION", "GET_FORMAT", "GREATEST",
    "GROUPING", "GROUP_CONCAT", "HAVING", "HEX", "HOUR", "IF", "IFNULL", "IN", "INDEX", "INET6_ATON",
    "INET6_NTOA", "INET_ATON", "INET_NTOA", "INSERT", "INSTR", "INT", "INTEGER", "INTERSECT", "INTERVAL", "IS",
    "IS_IPV4", "IS_IPV4_COMPAT", "IS_IPV4_MAPPED", "IS_IPV6", "IS_UUID", "JOIN", "JSON_ARRAY", "JSON_ARRAYAGG",
    "JSON_ARRAY_APPEND", "JSON_ARRAY_INSERT", "JSON_COMPACT", "JSON_CONTAINS", "JSON_CONTAINS_PATH", "JSON_DEPTH",
    "JSON_DETAILED", "JSON_EQUALS", "JSON_EXISTS", "JSON_EXTRACT", "JSON_INSERT", "JSON_KEYS", "JSON_LENGTH",
    "JSON_LOOSE", "JSON_MERGE", "JSON_MERGE_PATCH", "JSON_MERGE_PRESERVE", "JSON_NORMALIZE", "JSON_OBJECT",
    "JSON_OBJECTAGG", "JSON_OVERLAPS", "JSON_PRETTY", "JSON_QUERY", "JSON_QUOTE", "JSON_REMOVE", "JSON_REPLACE",
    "JSON_SCHEMA_VALID", "JSON_SCHEMA_VALIDATION_REPORT", "JSON_SEARCH", "JSON_SET", "JSON_STORAGE_SIZE",
    "JSON_TABLE", "JSON_TYPE", "JSON_UNQUOTE", "JSON_VALID", "JSON_VALUE", "KEY", "LAG", "LAST_DAY", "LAST_VALUE",
    "LATERAL", "LCASE", "LEAD", "LEAST", "LEFT", "LENGTH", "LENGTHB", "LIKE", "LIMIT", "LINESTRING", "LN",
    "LOCALTIME", "LOCALTIMESTAMP", "LOCATE", "LOG", "LOG10", "LOG2", "LOWER", "LPAD", "LTRIM", "MAKEDATE",
    "MAKETIME", "MAKE_SET", "MATCH", "MAX", "MBRCONTAINS", "MBRCOVEREDBY", "MBRCOVERS", "MBRDISJOINT",
    "MBREQUALS", "MBRINTERSECTS", "MBROVERLAPS", "MBRTOUCHES", "MBRWITHIN", "MD5", "MEDIAN", "MEMBER",
    "MICROSECOND", "MID", "MIN", "MINUS", "MINUTE", "MOD", "MONTH", "MONTHNAME", "MULTILINESTRING", "MULTIPOINT",
    "MULTIPOLYGON", "NAME_CONST", "NATURAL_SORT_KEY", "NCHAR", "NOT", "NOW", "NTH_VALUE", "NTILE", "NULLIF",
    "NUMERIC", "NVARCHAR", "NVL", "NVL2", "OCT", "OCTET_LENGTH", "OF", "OFFSET", "ON", "OR", "ORD", "ORDER",
    "OVER", "PARTITION", "PERCENTILE_CONT", "PERCENTILE_DISC", "PERCENT_RANK", "PERIOD_ADD", "PERIOD_DIFF", "PI",
    "POINT", "POLYGON", "POSITION", "POW", "POWER", "PRIMARY", "QUARTER", "QUOTE", "RADIANS", "RAND",
    "RANDOM_BYTES", "RANK", "REAL", "REGEXP", "REGEXP_INSTR", "REGEXP_LIKE", "REGEXP_REPLACE", "REGEXP_SUBSTR",
    "REPEAT", "REPLACE", "REVERSE", "RIGHT", "RLIKE", "ROLLUP", "ROUND", "ROW", "ROWS", "ROW_NUMBER", "RPAD",
    "RTRIM", "SCHEMA", "SECOND", "SEC_TO_TIME", "SELECT", "SESSION_USER", "SFORMAT", "SHA", "SHA1", "SHA2",
    "SIGN", "SIGNED", "SIN", "SLEEP", "SOME", "SOUNDEX", "SPACE", "SQRT", "STATEMENT_DIGEST",
    "STATEMENT_DIGEST_TEXT", "STD", "STDDEV", "STDDEV_POP", "STDDEV_SAMP", "STRAIGHT_JOIN", "STRCMP",
    "STR_TO_DATE", "ST_AREA", "ST_ASBINARY", "ST_ASGEOJSON", "ST_ASTEXT", "ST_ASWKB", "ST_ASWKT", "ST_BUFFER",
    "ST_BUFFER_STRATEGY", "ST_CENTROID", "ST_CONTAINS", "ST_CONVEXHULL", "ST_CROSSES", "ST_DIFFERENCE",
    "ST_DIMENSION", "ST_DISJOINT", "ST_DISTANCE", "ST_DISTANCE_SPHERE", "ST_ENDPOINT", "ST_ENVELOPE", "ST_EQUALS",
    "ST_EXTERIORRING", "ST_GEOHASH", "ST_GEOMCOLLFROMTEXT", "ST_GEOMCOLLFROMWKB", "ST_GEOMETRYN",
    "ST_GEOMETRYTYPE", "ST_GEOMFROMGEOJSON", "ST_GEOMFROMTEXT", "ST_GEOMFROMWKB", "ST_INTERIORRINGN",
    "ST_INTERSECTION", "ST_INTERSECTS", "ST_ISCLOSED", "ST_ISEMPTY", "ST_ISSIMPLE", "ST_ISVALID",
    "ST_LATFROMGEOHASH", "ST_LATITUDE", "ST_LENGTH", "ST_LINEFROMTEXT", "ST_LONGFROMGEOHASH", "ST_LONGITUDE",
    "ST_MAKEENVELOPE", "ST_NUMGEOMETRIES", "ST_NUMINTERIORRING", "ST_NUMINTERIORRINGS", "ST_NUMPOINTS",
    "ST_OVERLAPS", "ST_POINTFROMGEOHASH", "ST_POINTFROMTEXT", "ST_POINTFROMWKB", "ST_POINTN", "ST_POLYFROMTEXT",
    "ST_POLYGONFROMTEXT", "ST_SIMPLIFY", "ST_SRID", "ST_STARTPOINT", "ST_SWAPXY", "ST_SYMDIFFERENCE",
    "ST_TOUCHES", "ST_TRANSFORM", "ST_UNION", "ST_VALIDATE", "ST_WITHIN", "ST_X", "ST_Y", "SUBDATE", "SUBSTR",
    "SUBSTRING", "SUBSTRING_INDEX", "SUBTIME", "SUM", "SYSDATE", "SYSTEM_USER", "TAN", "THEN", "TIME", "TIMEDIFF",
    "TIMESTAMP", "TIMESTAMPADD", "TIMESTAMPDIFF", "TIME_FORMAT", "TIME_TO_SEC", "TO_BASE64", "TO_CHAR", "TO_DAYS",
    "TO_SECONDS", "TRIM", "TRUNCATE", "UCASE", "UNCOMPRESS", "UNCOMPRESSED_LENGTH", "UNHEX", "UNION",
    "UNIX_TIMESTAMP", "UNSIGNED", "UPPER", "USER", "USING", "UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP",
    "UUID", "UUID_TO_BIN", "VALIDATE_PASSWORD_STRENGTH", "VALUE", "VALUES", "VARBINARY", "VARCHAR", "VARIANCE",
    "VAR_POP", "VAR_SAMP", "VERSION", "WEEK", "WEEKDAY", "WEEKOFYEAR", "WEIGHT_STRING", "WHEN", "WHERE", "WITHIN",
    "XOR", "YEAR", "YEARWEEK",
];

/// Functions that leave nothing on the connection, and whose result depends on the server or the moment.
#[rustfmt::skip]
const OF_SERVER: &[&str] = &[
    "BENCHMARK", "BINLOG_GTID_POS", "GTID_SUBSET", "GTID_SUBTRACT", "ICU_VERSION",
    "LOAD_FILE", "MASTER_GTID_WAIT", "MASTER_POS_WAIT", "PS_CURRENT_THREAD_ID", "PS_THREAD_ID", "ROLES_GRAPHML",
    "SOURCE_POS_WAIT", "SYS_GUID", "UUID_SHORT", "UUID_V4", "UUID_V7", "WAIT_FOR_EXECUTED_GTID_SET",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_name_in_any_case_and_no_other() {
        for (name, flags) in STATEFUL {
            assert_eq!(flags_of(name.to_lowercase().as_bytes()), flags, "{name}");
        }
        for name in HARMLESS {
            assert_eq!(flags_of(name.as_bytes()), Flags::NONE, "{name}");
            assert_eq!(flags_of(format!("{name}_").as_bytes()), Flags::FUNCTION_CALL_UNKNOWN, "{name}");
        }
        for name in OF_SERVER {
            assert_eq!(flags_of(name.as_bytes()), Flags::SERVER_FUNCTION, "{name}");
        }
        assert_eq!(flags_of(b""), Flags::FUNCTION_CALL_UNKNOWN);
        assert!(TABLE.iter().flatten().count() * 2 < TABLE.len());
    }
}
