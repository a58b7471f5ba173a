//! The tokens of the libconfig grammar, with `@include` already resolved.

use std::path::{Path, PathBuf};

use crate::config::tree::Position;

/// Returns the text of an included file, or the reason why it cannot be read.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> Result<String, String>;

/// A violation of the grammar.
#[derive(Debug)]
pub(super) struct Mistake {
    pub at: Position,
    pub message: String,
}

/// How deep includes may nest: libconfig's own limit.
const DEEPEST_INCLUDE: usize = 10;

/// The maximum total size of all files. Included files count each time, so that includes cannot multiply without limit.
const LARGEST_TEXT: usize = 16 << 20;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Name(String),
    Flag(bool),
    Integer(i64, String),
    Float(String),
    Text(String),
    Assign,
    Comma,
    Semicolon,
    GroupOpen,
    GroupClose,
    ListOpen,
    ListClose,
    ArrayOpen,
    ArrayClose,
    End,
}

impl Kind {
    pub(super) fn describe(&self) -> String {
        let fixed = match self {
            Kind::Name(name) => return format!("the name `{name}`"),
            Kind::Flag(flag) => return format!("`{flag}`"),
            Kind::Integer(_, written) | Kind::Float(written) => return format!("the number {written}"),
            Kind::Text(text) => return format!("the string {text:?}"),
            Kind::Assign => "`=`",
            Kind::Comma => "`,`",
            Kind::Semicolon => "`;`",
            Kind::GroupOpen => "`{`",
            Kind::GroupClose => "`}`",
            Kind::ListOpen => "`(`",
            Kind::ListClose => "`)`",
            Kind::ArrayOpen => "`[`",
            Kind::ArrayClose => "`]`",
            Kind::End => "the end of the file",
        };
        fixed.to_owned()
    }
}

#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) at: Position,
}

/// All tokens of a file and its includes; at least [`Kind::End`].
#[derive(Debug)]
pub(super) struct Tokens {
    list: Vec<Token>,
    end: Token,
}

impl Tokens {
    pub(super) fn of(
        files: &mut Vec<PathBuf>,
        text: &str,
        read_file: ReadFile<'_>,
    ) -> Result<Tokens, Mistake> {
        let mut reader = Reader { files, read_file, list: Vec::new(), bytes: 0 };
        let at = reader.read(text, 0, 0)?;
        Ok(Tokens { list: reader.list, end: Token { kind: Kind::End, at } })
    }

    /// The token with that index; past the last one it is always [`Kind::End`].
    pub(super) fn at(&self, index: usize) -> &Token {
        self.list.get(index).unwrap_or(&self.end)
    }
}

struct Reader<'a, 'b> {
    files: &'a mut Vec<PathBuf>,
    read_file: ReadFile<'b>,
    list: Vec<Token>,
    bytes: usize,
}

impl Reader<'_, '_> {
    /// Adds the tokens of the text of `self.files[file]`; returns where it ends.
    fn read(&mut self, text: &str, file: usize, depth: usize) -> Result<Position, Mistake> {
        self.bytes += text.len();
        let mut cursor = Cursor { rest: text, at: Position { file, line: 1, column: 1 } };
        if self.bytes > LARGEST_TEXT {
            return Err(cursor.mistake("all files together are larger than 16 MiB"));
        }
        loop {
            cursor.skip_blank()?;
            if cursor.rest.is_empty() {
                return Ok(cursor.at);
            }
            let at = cursor.at;
            if cursor.take_prefix("@include") {
                let included = cursor.include_path()?;
                self.include(&included, at, depth)?;
            } else {
                let kind = cursor.token()?;
                self.list.push(Token { kind, at });
            }
        }
    }

    /// A relative path is relative to the folder of the including file.
    fn include(&mut self, included: &str, at: Position, depth: usize) -> Result<(), Mistake> {
        if depth == DEEPEST_INCLUDE {
            let message = format!("more than {DEEPEST_INCLUDE} levels of @include");
            return Err(Mistake { at, message });
        }
        let including = self.files.get(at.file).and_then(|path| path.parent());
        let path = including.map_or_else(|| PathBuf::from(included), |folder| folder.join(included));
        let text = (self.read_file)(&path)
            .map_err(|e| Mistake { at, message: format!("@include {}: {e}", path.display()) })?;
        self.files.push(path);
        self.read(&text, self.files.len() - 1, depth + 1)?;
        Ok(())
    }
}

/// The remaining text, and where it begins.
struct Cursor<'a> {
    rest: &'a str,
    at: Position,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let found = chars.next()?;
        self.rest = chars.as_str();
        if found == '\n' {
            self.at.line += 1;
            self.at.column = 1;
        } else {
            self.at.column += 1;
        }
        Some(found)
    }

    fn skip(&mut self, characters: usize) {
        for _ in 0..characters {
            self.bump();
        }
    }

    fn take_prefix(&mut self, prefix: &str) -> bool {
        let found = self.rest.starts_with(prefix);
        if found {
            self.skip(prefix.len());
        }
        found
    }

    fn take_while(&mut self, mut wanted: impl FnMut(char) -> bool) -> &'a str {
        let before = self.rest;
        while self.peek().is_some_and(&mut wanted) {
            self.bump();
        }
        before.get(..before.len() - self.rest.len()).unwrap_or_default()
    }

    fn mistake(&self, message: impl Into<String>) -> Mistake {
        Mistake { at: self.at, message: message.into() }
    }

    /// Skips white space and the three kinds of comments.
    fn skip_blank(&mut self) -> Result<(), Mistake> {
        loop {
            self.take_while(char::is_whitespace);
            let at = self.at;
            if self.rest.starts_with('#') || self.rest.starts_with("//") {
                self.take_while(|c| c != '\n');
            } else if self.take_prefix("/*") {
                while !self.take_prefix("*/") {
                    if self.bump().is_none() {
                        return Err(Mistake { at, message: "unterminated comment".to_owned() });
                    }
                }
            } else {
                return Ok(());
            }
        }
    }

    fn include_path(&mut self) -> Result<String, Mistake> {
        self.take_while(|c| c == ' ' || c == '\t');
        if self.peek() != Some('"') {
            return Err(self.mistake("expected a file name in quotes after @include"));
        }
        self.string()
    }

    fn token(&mut self) -> Result<Kind, Mistake> {
        let first = self.peek().unwrap_or_default();
        let kind = match first {
            '=' | ':' => Kind::Assign,
            ',' => Kind::Comma,
            ';' => Kind::Semicolon,
            '{' => Kind::GroupOpen,
            '}' => Kind::GroupClose,
            '(' => Kind::ListOpen,
            ')' => Kind::ListClose,
            '[' => Kind::ArrayOpen,
            ']' => Kind::ArrayClose,
            '"' => return self.string().map(Kind::Text),
            '+' | '-' | '.' | '0'..='9' => return self.number(),
            'A'..='Z' | 'a'..='z' | '*' | '_' => return Ok(self.word()),
            _ => return Err(self.mistake(format!("unexpected character {first:?}"))),
        };
        self.bump();
        Ok(kind)
    }

    fn word(&mut self) -> Kind {
        let word = self.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*'));
        if word.eq_ignore_ascii_case("true") {
            Kind::Flag(true)
        } else if word.eq_ignore_ascii_case("false") {
            Kind::Flag(false)
        } else {
            Kind::Name(word.to_owned())
        }
    }

    fn number(&mut self) -> Result<Kind, Mistake> {
        let at = self.at;
        let mut previous = ' ';
        let written = self.take_while(|c| {
            let sign = matches!(c, '+' | '-') && matches!(previous, ' ' | 'e' | 'E');
            previous = c;
            sign || c == '.' || c.is_ascii_alphanumeric()
        });
        number_of(written).map_err(|message| Mistake { at, message })
    }

    /// A string up to its closing quote. A backslash before a character other than those below is kept, as in
    /// libconfig, so that `"\d"` is the expression it looks like.
    fn string(&mut self) -> Result<String, Mistake> {
        let opening = self.at;
        self.bump();
        let mut bytes = Vec::new();
        loop {
            let plain = self.take_while(|c| c != '"' && c != '\\');
            bytes.extend_from_slice(plain.as_bytes());
            match self.bump() {
                Some('"') => break,
                Some(_) => bytes.push(self.escape()),
                None => {
                    let message = "unterminated string".to_owned();
                    return Err(Mistake { at: opening, message });
                }
            }
        }
        String::from_utf8(bytes).map_err(|_| Mistake {
            at: opening,
            message: "this string is not UTF-8 once its \\x escapes are read".to_owned(),
        })
    }

    /// The byte that the escape after a backslash stands for, or the backslash.
    fn escape(&mut self) -> u8 {
        let (length, byte) = match self.rest.as_bytes() {
            [b'n', ..] => (1, b'\n'),
            [b'r', ..] => (1, b'\r'),
            [b't', ..] => (1, b'\t'),
            [b'f', ..] => (1, 0x0c),
            [byte @ (b'\\' | b'"'), ..] => (1, *byte),
            [b'x' | b'X', high, low, ..] => match (hex_digit(*high), hex_digit(*low)) {
                (Some(high), Some(low)) => (3, high << 4 | low),
                _ => (0, b'\\'),
            },
            _ => (0, b'\\'),
        };
        self.skip(length);
        byte
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn number_of(written: &str) -> Result<Kind, String> {
    let hex = written.strip_prefix("0x").or_else(|| written.strip_prefix("0X"));
    let (digits, radix) = match hex {
        Some(digits) => (digits, 16),
        None => (written, 10),
    };
    let digits = digits.strip_suffix("LL").or_else(|| digits.strip_suffix('L')).unwrap_or(digits);
    let unsigned = if radix == 10 { digits.strip_prefix(['+', '-']).unwrap_or(digits) } else { digits };
    if !unsigned.is_empty() && unsigned.chars().all(|c| c.is_digit(radix)) {
        return i64::from_str_radix(digits, radix)
            .map(|value| Kind::Integer(value, digits_as_written(written)))
            .map_err(|_| format!("{written} does not fit into 64 bits"));
    }
    let is_float = unsigned.chars().any(|c| c.is_ascii_digit()) && digits.parse::<f64>().is_ok();
    if is_float && radix == 10 && digits.len() == written.len() {
        return Ok(Kind::Float(written.to_owned()));
    }
    Err(format!("{written} is not a number"))
}

/// Without the suffix, which only gives the width of the number.
fn digits_as_written(written: &str) -> String {
    written.trim_end_matches('L').to_owned()
}
