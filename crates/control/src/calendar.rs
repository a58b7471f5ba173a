//! The calendar, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

/// `YYYY-MM-DD hh:mm:ss` and the microseconds as a fraction, of which `digits` are kept (at most 6).
pub fn date_and_fraction(time: SystemTime, digits: usize) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let micros = format!("{:06}", since.subsec_micros());
    format!("{}.{}", date_and_time(seconds), micros.get(..digits).unwrap_or(&micros))
}

/// `YYYY-MM-DD hh:mm:ss` of a number of seconds since 1970.
pub fn date_and_time(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years are counted from the first of March of the year 0, so that the leap day is the last day of its year.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + era * 400 + next_year;
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02}", second % 60)
}
