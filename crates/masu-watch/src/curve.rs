//! Memory over time: points of seconds and KiB, in the order of time.

/// The measurements of a program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curve(pub Vec<(f64, u64)>);

impl Curve {
    /// Returns the largest value, in KiB.
    pub fn peak(&self) -> u64 {
        self.0.iter().map(|&(_, kib)| kib).max().unwrap_or(0)
    }

    /// Returns the value at a time: that of the last measurement until then, in KiB.
    pub fn at(&self, second: f64) -> u64 {
        let until = self.0.partition_point(|&(time, _)| time <= second);
        until.checked_sub(1).map_or(0, |last| self.0[last].1)
    }

    /// Returns the time of the last measurement, in seconds.
    pub fn end(&self) -> f64 {
        self.0.last().map_or(0.0, |&(time, _)| time)
    }

    /// Returns the largest value in each of `count` equal parts of the time until `end`. A part without a measurement
    /// has the value at its start; parts after the last measurement are 0.
    pub fn parts(&self, count: usize, end: f64) -> Vec<u64> {
        let part = |place: usize| {
            let (from, to) =
                (end * place as f64 / count as f64, end * (place + 1) as f64 / count as f64);
            let first = self.0.partition_point(|&(time, _)| time < from);
            // The end is usually that of the curve, whose last value belongs to the last part.
            let is_within = |time: f64| time < to || place + 1 == count && time <= end;
            let within = self.0[first..].iter().take_while(|&&(time, _)| is_within(time));
            let within = within.map(|&(_, kib)| kib);
            let before = if from <= self.end() { self.at(from) } else { 0 };
            within.max().unwrap_or(before)
        };
        (0..count).map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_keep_peaks_and_bridge_gaps() {
        let curve = Curve(vec![(0.1, 5), (0.2, 90), (0.3, 7), (2.5, 3)]);
        assert_eq!((curve.peak(), curve.end()), (90, 2.5));
        assert_eq!((curve.at(0.0), curve.at(0.25), curve.at(9.0)), (0, 90, 3));
        assert_eq!(curve.parts(4, 4.0), [90, 7, 3, 0]);
        assert_eq!(Curve::default().parts(2, 1.0), [0, 0]);
        assert_eq!(Curve(vec![(0.0, 1), (1.0, 9)]).parts(2, 1.0), [1, 9], "the last value");
    }
}
