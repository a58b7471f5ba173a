//! The rows of an answer in the format sent to clients (manual: "Text Resultset Row"): a cell costs its bytes and their
//! length. They are stored in pieces, so that sent pieces are freed while others wait.

use std::collections::VecDeque;

use narrows_wire::codec::{Reader, put_lenenc_bytes};

/// A cell of an answer as text; `None` for NULL.
pub type Cell = Option<Vec<u8>>;

/// The rows of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packed {
    /// Each piece has whole rows: the length of a row in four bytes, and the row.
    pieces: VecDeque<Vec<u8>>,
    rows: usize,
    bytes: usize,
}

impl Packed {
    /// Adds a row.
    pub fn push<'a>(&mut self, cells: impl IntoIterator<Item = Option<&'a [u8]>>) {
        let is_full = self.pieces.back().is_none_or(|piece| piece.len() >= PIECE);
        if is_full {
            self.pieces.push_back(Vec::new());
        }
        let piece = self.pieces.back_mut().expect("one was just added");
        let start = piece.len();
        piece.extend([0; LENGTH]);
        for cell in cells {
            match cell {
                Some(bytes) => put_lenenc_bytes(piece, bytes),
                None => piece.push(NULL),
            }
        }
        let length = u32::try_from(piece.len() - start - LENGTH).expect("a row is far below 4 GiB");
        piece[start..start + LENGTH].copy_from_slice(&length.to_le_bytes());
        self.rows += 1;
        self.bytes += piece.len() - start;
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The size of the rows in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Removes and returns the next rows, about [`PIECE`] bytes; [`rows_of`] returns them one by one.
    pub fn take_piece(&mut self) -> Option<Vec<u8>> {
        self.pieces.pop_front()
    }
}

/// The rows of a piece, each as sent to a client.
pub fn rows_of(piece: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = piece;
    std::iter::from_fn(move || {
        let (length, behind) = rest.split_first_chunk::<LENGTH>()?;
        let (row, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        rest = behind;
        Some(row)
    })
}

fn cells(row: &[u8]) -> Vec<Cell> {
    let mut reader = Reader::new(row);
    let mut cells = Vec::new();
    while let Some(first) = reader.peek() {
        let cell = match first {
            NULL => reader.u8().map(|_| None),
            _ => reader.lenenc_bytes().map(|bytes| Some(bytes.to_vec())),
        };
        cells.push(cell.expect("what was packed is whole"));
    }
    cells
}

impl FromIterator<Vec<Cell>> for Packed {
    fn from_iter<T: IntoIterator<Item = Vec<Cell>>>(rows: T) -> Packed {
        let mut packed = Packed::default();
        rows.into_iter().for_each(|row| packed.push(row.iter().map(Option::as_deref)));
        packed
    }
}

impl IntoIterator for Packed {
    type Item = Vec<Cell>;
    type IntoIter = std::vec::IntoIter<Vec<Cell>>;

    fn into_iter(self) -> Self::IntoIter {
        let rows: Vec<Vec<Cell>> = self.pieces.iter().flat_map(|piece| rows_of(piece)).map(cells).collect();
        rows.into_iter()
    }
}

/// Replaces a cell's length (manual: "Text Resultset Row").
const NULL: u8 = 0xFB;

/// How many bytes a row's length takes.
const LENGTH: usize = 4;

/// The size after which a new piece begins: large compared with the cost of an allocation, small compared with an
/// answer.
const PIECE: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_out_as_they_went_in() {
        let row = |number: usize| {
            let text = number.to_string().into_bytes();
            vec![Some(text), None, Some(Vec::new()), Some(vec![b'x'; number % 1_000])]
        };
        let rows: Vec<Vec<Cell>> = (0..2_000).map(row).collect();
        let packed: Packed = rows.iter().cloned().collect();
        assert_eq!((packed.len(), packed.is_empty()), (2_000, false));
        assert!(packed.pieces.len() > 2, "there are several pieces");
        assert_eq!(packed.bytes(), packed.pieces.iter().map(Vec::len).sum::<usize>());
        assert!(packed.into_iter().eq(rows));
    }
}
