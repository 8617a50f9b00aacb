//! Stored sketches of visitors.

use linkledger_clicks::sketch::VisitorSketch;

/// Returns the stored sketch with more visitors; `None` if it is the same sketch. A damaged sketch is logged and
/// begun anew, because it would delay all other statistics otherwise.
pub(super) fn with_visitors(stored: Option<&Vec<u8>>, visitors: &[u64]) -> Option<Vec<u8>> {
    if visitors.is_empty() {
        return None;
    }
    let sketch = stored.map(|bytes| VisitorSketch::from_bytes(bytes));
    let mut sketch = match sketch.transpose() {
        Ok(sketch) => sketch.unwrap_or_default(),
        Err(error) => {
            tracing::error!(%error, "a stored sketch is begun anew; its visitors count again");
            VisitorSketch::default()
        }
    };
    for visitor in visitors {
        sketch.insert(*visitor);
    }
    let bytes = sketch.to_bytes();
    (stored != Some(&bytes)).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_visitors_change_nothing() {
        let stored = with_visitors(None, &[1, 2]).unwrap();
        assert_eq!(with_visitors(Some(&stored), &[2, 1]), None);
        assert_eq!(with_visitors(Some(&stored), &[]), None);
        let three = with_visitors(Some(&stored), &[3]).unwrap();
        assert_eq!(VisitorSketch::from_bytes(&three).unwrap().estimate(), 3);
    }

    #[test]
    fn damaged_sketch_is_begun_anew() {
        let new = with_visitors(Some(&vec![9, 9]), &[1]).unwrap();
        assert_eq!(VisitorSketch::from_bytes(&new).unwrap().estimate(), 1);
    }
}
