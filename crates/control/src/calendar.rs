//! The calendar, in UTC.

use std::time::SystemTime;

use narrows_proxy::clock::since_1970;

/// `YYYY-MM-DD hh:mm:ss` and the microseconds as a fraction, of which `digits` are kept (at most 6).
pub fn date_and_fraction(time: SystemTime, digits: usize) -> String {
    let since = since_1970(time);
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

/// The seconds since 1970 of `YYYY-MM-DDThh:mm:ssZ`, with or without a fraction; `None` if a text is something else.
pub fn seconds_of(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z')?;
    let text = text.split_once('.').map_or(text, |(whole, _)| whole);
    let (date, time) = text.split_once('T')?;
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let fits =
        (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    if !fits || !(1970..=9999).contains(&year) {
        return None;
    }
    // As above, the year begins in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468;
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second)
}

fn numbers(text: &str, between: char) -> Option<[i64; 3]> {
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = text.split(between).collect();
    let read: Vec<i64> =
        parts.iter().filter(|part| is_number(part)).filter_map(|it| it.parse().ok()).collect();
    <[i64; 3]>::try_from(read).ok().filter(|_| parts.len() == 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_they_are_written() {
        for seconds in [0, 68_169_600, 951_782_399, 951_868_800, 1_440_938_160, 1_709_164_800, 4_102_444_799]
        {
            let text = format!("{}Z", date_and_time(seconds).replace(' ', "T"));
            assert_eq!(seconds_of(&text), Some(seconds), "{text}");
        }
        assert_eq!(seconds_of("2015-08-30T12:36:00.123Z"), Some(1_440_938_160));
        for text in [
            "",
            "Z",
            "2015-08-30",
            "2015-08-30T12:36:00",
            "2015-13-30T12:36:00Z",
            "2015-08-30T12:36Z",
            "x-y-zTa:b:cZ",
        ] {
            assert_eq!(seconds_of(text), None, "{text}");
        }
    }
}
