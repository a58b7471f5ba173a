//! The payload of `COM_STMT_EXECUTE` (manual: "COM_STMT_EXECUTE") and of MariaDB's `COM_STMT_BULK_EXECUTE`: where the
//! types of the parameters are. Values are not decoded.
//!
//! A client binds types once; later executions leave them out, and the server uses those it received last. A proxy that
//! executes one server statement for several clients must therefore add them again.
//!
//! ```text
//! id:4 flags:1 iterations:4 [count] nulls:(n+7)/8 bound:1 [types:2n] values     COM_STMT_EXECUTE
//! id:4 flags:2              [types:2n] rows                                     COM_STMT_BULK_EXECUTE
//! ```
//!
//! With `CLIENT_QUERY_ATTRIBUTES` the count of parameters precedes the nulls, and a name follows each type; parameters
//! beyond those of the statement are attributes.

use std::ops::Range;

use crate::codec::{Malformed, Reader};
use crate::query::is_null;
use crate::value::{shown, skip_value};

/// The flags of a `COM_STMT_EXECUTE` that ask for a cursor.
pub const CURSOR_FLAGS: u8 = 0b0111;

/// The flag of a `COM_STMT_EXECUTE` that says that a count of parameters follows even if the statement has none.
const COUNT_FOLLOWS: u8 = 0b1000;

/// The flag of a `COM_STMT_BULK_EXECUTE` that says that types follow.
const BULK_TYPES_FOLLOW: u8 = 128;

/// Where the parameters of an execution are; offsets into the payload after the command byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// How many there are, attributes included.
    count: usize,
    nulls: Range<usize>,
    /// The flag that says whether types follow: a byte that is 0 or 1, or the low byte of a bulk execution's flags.
    bound: usize,
    /// The types, with their names if they have any; empty if none were sent.
    types: Range<usize>,
    bulk: bool,
}

impl Parameters {
    /// Finds the parameters of a `COM_STMT_EXECUTE` of a statement with `params` placeholders; `None` if there are
    /// none. `attributes`: whether `CLIENT_QUERY_ATTRIBUTES` was negotiated.
    ///
    /// # Errors
    /// If the payload ends before the values begin, as it may when only its beginning has been read.
    pub fn of_execute(
        payload: &[u8],
        params: u16,
        attributes: bool,
    ) -> Result<Option<Parameters>, Malformed> {
        let mut reader = Reader::new(payload);
        reader.u32()?;
        let flags = reader.u8()?;
        reader.u32()?;
        let mut count = usize::from(params);
        if attributes && (count > 0 || flags & COUNT_FOLLOWS != 0) {
            count = usize::try_from(reader.lenenc_int()?).map_err(|_| Malformed("too many parameters"))?;
            if count < usize::from(params) {
                return Err(Malformed("fewer parameters than the statement has"));
            }
        }
        if count == 0 {
            return Ok(None);
        }
        let offset = |reader: &Reader<'_>| payload.len() - reader.remaining();
        let start = offset(&reader);
        reader.bytes(count.div_ceil(8))?;
        let bound = offset(&reader);
        let follow = match reader.u8()? {
            0 => false,
            1 => true,
            // MySQL reads types here, MariaDB does not.
            _ => return Err(Malformed("a flag for types that is neither 0 nor 1")),
        };
        let types = bound + 1;
        if follow && attributes {
            for _ in 0..count {
                reader.u16()?;
                reader.lenenc_bytes()?;
            }
        } else if follow {
            reader.bytes(count * 2)?;
        }
        Ok(Some(Parameters { count, nulls: start..bound, bound, types: types..offset(&reader), bulk: false }))
    }

    /// Finds the types of a `COM_STMT_BULK_EXECUTE` of a statement with `params` placeholders.
    ///
    /// # Errors
    /// As for [`Parameters::of_execute`].
    pub fn of_bulk(payload: &[u8], params: u16) -> Result<Option<Parameters>, Malformed> {
        let mut reader = Reader::new(payload);
        reader.u32()?;
        let flags = reader.u8()?;
        reader.u8()?;
        let count = usize::from(params);
        if count == 0 {
            return Ok(None);
        }
        let length = if flags & BULK_TYPES_FOLLOW != 0 { count * 2 } else { 0 };
        reader.bytes(length)?;
        Ok(Some(Parameters { count, nulls: 6..6, bound: 4, types: 6..6 + length, bulk: true }))
    }

    /// The types that the execution binds; `None` if it uses those bound before.
    pub fn types<'p>(&self, payload: &'p [u8]) -> Option<&'p [u8]> {
        payload.get(self.types.clone()).filter(|types| !types.is_empty())
    }

    /// What is passed for each of the first `params` parameters: its type, or `None` for NULL. `types` are those to
    /// use, each followed by a name if `named`.
    pub fn given<'p>(
        &self,
        payload: &'p [u8],
        types: &'p [u8],
        params: u16,
        named: bool,
    ) -> impl Iterator<Item = Option<[u8; 2]>> + Clone + use<'p> {
        let nulls = payload.get(self.nulls.clone()).unwrap_or_default();
        let mut reader = Reader::new(types);
        (0..usize::from(params)).map_while(move |index| {
            let kind = reader.array().ok()?;
            if named {
                reader.lenenc_bytes().ok()?;
            }
            Some((!is_null(nulls, index)).then_some(kind))
        })
    }

    /// The values as text: the name of each one's type, and its text, or `None` for NULL. `types` are those to use, each followed
    /// by a name if `named`. Values that cannot be read, and those after them, are left out.
    pub fn shown(
        &self,
        payload: &[u8],
        types: &[u8],
        params: u16,
        named: bool,
    ) -> Vec<Option<(&'static str, String)>> {
        let mut reader = Reader::new(payload.get(self.types.end..).unwrap_or_default());
        let show = |given: Option<[u8; 2]>| {
            let Some(kind) = given.map(u16::from_le_bytes) else { return Some(None) };
            let value = skip_value(&mut reader, kind).ok()?;
            shown(kind, value).map(Some)
        };
        self.given(payload, types, params, named).map_while(show).collect()
    }

    /// The beginning of the payload with `types` inserted, and how many bytes of `payload` it replaces.
    pub fn with_types(&self, payload: &[u8], types: &[u8]) -> (Vec<u8>, usize) {
        let mut head = Vec::with_capacity(self.types.start + types.len());
        head.extend_from_slice(payload.get(..self.types.start).unwrap_or_default());
        if let Some(flag) = head.get_mut(self.bound) {
            *flag |= if self.bulk { BULK_TYPES_FOLLOW } else { 1 };
        }
        head.extend_from_slice(types);
        (head, self.types.end)
    }

    /// The execution for a server without `CLIENT_QUERY_ATTRIBUTES`: without the count, the names and the attributes.
    /// `types` are those to use if the execution has none itself.
    ///
    /// # Errors
    /// If the values do not end within `payload`.
    pub fn without_attributes(
        &self,
        payload: &[u8],
        params: u16,
        types: &[u8],
    ) -> Result<Vec<u8>, Malformed> {
        let params = usize::from(params).min(self.count);
        let (plain, kinds) = without_names(self.types(payload).unwrap_or(types), params)?;
        let nulls = payload.get(self.nulls.clone()).unwrap_or_default();
        let values = payload.get(self.types.end..).unwrap_or_default();
        let mut reader = Reader::new(values);
        for (index, kind) in kinds.into_iter().enumerate() {
            if !is_null(nulls, index) {
                skip_value(&mut reader, kind)?;
            }
        }
        let mut out = payload.get(..9).unwrap_or_default().to_vec();
        if let Some(flags) = out.get_mut(4) {
            *flags &= !COUNT_FOLLOWS;
        }
        if params > 0 {
            out.extend_from_slice(nulls.get(..params.div_ceil(8)).unwrap_or_default());
            out.push(1);
            out.extend_from_slice(&plain);
            out.extend_from_slice(values.get(..values.len() - reader.remaining()).unwrap_or_default());
        }
        Ok(out)
    }
}

/// The first `count` types without their names, and the type byte of each.
fn without_names(types: &[u8], count: usize) -> Result<(Vec<u8>, Vec<u16>), Malformed> {
    let mut reader = Reader::new(types);
    let mut plain = Vec::with_capacity(count * 2);
    let mut kinds = Vec::with_capacity(count);
    for _ in 0..count {
        let kind: [u8; 2] = reader.array()?;
        reader.lenenc_bytes()?;
        kinds.push(u16::from_le_bytes(kind));
        plain.extend(kind);
    }
    Ok((plain, kinds))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One parameter: id 7, no cursor, one iteration, no null, types follow: a LONG; the value 5.
    const BOUND: &[u8] = b"\x07\0\0\0\0\x01\0\0\0\x00\x01\x03\x00\x05\0\0\0";
    /// The same without types.
    const LATER: &[u8] = b"\x07\0\0\0\0\x01\0\0\0\x00\x00\x05\0\0\0";

    #[test]
    fn shows_the_values() {
        let bound = Parameters::of_execute(BOUND, 1, false).unwrap().unwrap();
        let five = [Some(("LONG", "5".to_owned()))];
        assert_eq!(bound.shown(BOUND, bound.types(BOUND).unwrap(), 1, false), five);
        let later = Parameters::of_execute(LATER, 1, false).unwrap().unwrap();
        assert_eq!(later.shown(LATER, b"\x03\0", 1, false), five);
        assert_eq!(later.shown(&LATER[..LATER.len() - 1], b"\x03\0", 1, false), []);
        let null = b"\x07\0\0\0\0\x01\0\0\0\x01\x01\x03\x00";
        let bound = Parameters::of_execute(null, 1, false).unwrap().unwrap();
        assert_eq!(bound.shown(null, b"\x03\0", 1, false), [None]);
    }

    #[test]
    fn finds_the_types_and_puts_them_in_again() {
        let bound = Parameters::of_execute(BOUND, 1, false).unwrap().unwrap();
        assert_eq!(bound.types(BOUND), Some(b"\x03\0".as_slice()));
        let later = Parameters::of_execute(LATER, 1, false).unwrap().unwrap();
        assert_eq!(later.types(LATER), None);
        let (head, replaced) = later.with_types(LATER, b"\x03\0");
        assert_eq!([&head, &LATER[replaced..]].concat(), BOUND);
    }

    #[test]
    fn refuses_a_flag_that_servers_read_in_two_ways() {
        for flag in 2..=u8::MAX {
            let mut bound = BOUND.to_vec();
            bound[10] = flag;
            assert!(Parameters::of_execute(&bound, 1, false).is_err(), "{flag}");
        }
    }

    #[test]
    fn refuses_fewer_parameters_than_the_statement_has() {
        assert!(Parameters::of_execute(b"\x07\0\0\0\0\x01\0\0\0\x01\x00\x00\x05", 2, true).is_err());
    }

    #[test]
    fn tells_what_each_parameter_is_given() {
        // Two parameters, the first of them null: LONG and unsigned LONGLONG.
        let bound = b"\x07\0\0\0\0\x01\0\0\0\x01\x01\x03\x00\x08\x80\x05\0\0\0\0\0\0\0";
        let parameters = Parameters::of_execute(bound, 2, false).unwrap().unwrap();
        let types = parameters.types(bound).unwrap();
        let given: Vec<_> = parameters.given(bound, types, 2, false).collect();
        assert_eq!(given, [None, Some([8, 0x80])]);
    }

    #[test]
    fn an_execution_without_parameters_has_no_types() {
        assert_eq!(Parameters::of_execute(b"\x07\0\0\0\0\x01\0\0\0", 0, true), Ok(None));
    }

    #[test]
    fn leaves_out_what_a_server_without_attributes_does_not_take() {
        // A parameter and an attribute; neither is null; the types: LONG without a name, STRING named "a".
        let named = b"\x07\0\0\0\x08\x01\0\0\0\x02\x00\x01\x03\x00\x00\xfe\x00\x01a\x05\0\0\0\x03xyz";
        let parameters = Parameters::of_execute(named, 1, true).unwrap().unwrap();
        assert_eq!(parameters.types(named), Some(b"\x03\0\0\xfe\0\x01a".as_slice()));
        assert_eq!(parameters.without_attributes(named, 1, b"").unwrap(), BOUND);
    }

    #[test]
    fn a_bulk_execution_says_by_a_flag_that_types_follow() {
        let later = b"\x07\0\0\0\x40\0\x00\x05\0\0\0";
        let parameters = Parameters::of_bulk(later, 1).unwrap().unwrap();
        assert_eq!(parameters.types(later), None);
        let (head, replaced) = parameters.with_types(later, b"\x03\0");
        let bound = [&head, &later[replaced..]].concat();
        assert_eq!(bound, b"\x07\0\0\0\xc0\0\x03\0\x00\x05\0\0\0");
        assert_eq!(
            Parameters::of_bulk(&bound, 1).unwrap().unwrap().types(&bound),
            Some(b"\x03\0".as_slice())
        );
    }

    #[test]
    fn refuses_a_payload_that_ends_too_early() {
        for length in 0..BOUND.len() - 5 {
            assert!(Parameters::of_execute(&BOUND[..length], 1, false).is_err(), "{length}");
        }
        assert!(Parameters::of_bulk(b"\x07\0\0\0\x80\0\x03", 1).is_err());
    }
}
