// Package cron computes the times at which something is repeated, in a time zone whose clocks change.
//
// A [Rule] is parsed from five cron fields ("*/10 9-17 * * MON-FRI"), a shortcut ("@daily"), an interval ("every 10m"),
// or words ("every weekday at 9:30", "at 14:00", "in 20m"). Intervals count elapsed time from the moment at which the
// rule was made. Everything else names times of the clock, which become moments by one definition: the moment of a
// clock time is the first at which clocks show that time or a later one. So a time in the gap of a change comes once,
// when the gap ends, and of a doubled hour only the first pass counts.
package cron

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// A Rule is a parsed text. The zero Rule names no time. Rules are values and can be compared.
type Rule struct {
	text     string
	interval time.Duration // 0: the clock counts
	once     bool
	date     time.Time // of "at DATE TIME": the clock time, in UTC; zero: the fields count

	minute, hour, day, month, weekday uint64 // sets of bits
	// eitherDay means that days of the month and days of the week are both restricted, so one of them is enough.
	eitherDay bool
}

// String returns the text that a rule was parsed from, with single blanks.
func (r Rule) String() string { return r.text }

// Once reports whether a rule names only one time.
func (r Rule) Once() bool { return r.once }

// Interval returns the time between two times of an interval; 0: the rule names times of the clock.
func (r Rule) Interval() time.Duration { return r.interval }

// horizon is how many years ahead a time is looked for: February 29 can be eight years away, and on a given day of the
// week 40.
const horizon = 41

// Next returns the first time of a rule after a moment, in the zone of that moment; the zero Time: there is none.
// Intervals count from start, and what comes once in an interval is start + interval. A rule of the clock that comes
// once names the first time after start.
func (r Rule) Next(after, start time.Time) time.Time {
	zone := after.Location()
	if r.interval > 0 {
		n := max(0, after.Sub(start)/r.interval) + 1
		if next := start.Add(n * r.interval); !r.once || n == 1 && next.After(after) {
			return next.In(zone)
		}
		return time.Time{}
	}
	if !r.date.IsZero() {
		if t := Moment(r.date, zone); t.After(after) {
			return t
		}
		return time.Time{}
	}
	if r.once && after.After(start) {
		if first := r.clock(start, zone); !first.After(after) {
			return time.Time{}
		}
	}
	return r.clock(after, zone)
}

// clock returns the first time of the fields after a moment.
func (r Rule) clock(after time.Time, zone *time.Location) time.Time {
	// The clock shows the same day again after midnight was doubled, but the moments of clock times never go back, so
	// times are tried in order until one is later.
	for c := wall(after.In(zone)); ; c = c.Add(time.Minute) {
		if c = r.match(c); c.IsZero() {
			return c
		}
		if t := Moment(c, zone); t.After(after) {
			return t
		}
	}
}

// match returns the first clock time of the fields at or after c, a time in UTC whose zone does not matter.
func (r Rule) match(c time.Time) time.Time {
	if c != c.Truncate(time.Minute) {
		c = c.Truncate(time.Minute).Add(time.Minute)
	}
	end := c.Year() + horizon
	for c.Year() <= end {
		y, m, d := c.Date()
		switch {
		case r.month&(1<<m) == 0:
			c = time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC)
			continue
		case !r.matchDay(c):
			c = time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC)
			continue
		}
		hour := next(r.hour, c.Hour())
		minute := next(r.minute, 0)
		if hour == c.Hour() {
			if minute = next(r.minute, c.Minute()); minute > 59 {
				hour, minute = next(r.hour, hour+1), next(r.minute, 0)
			}
		}
		if hour <= 23 {
			return time.Date(y, m, d, hour, minute, 0, 0, time.UTC)
		}
		c = time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC)
	}
	return time.Time{}
}

// A Calendar is a rule of the clock as sets of numbers, for other programs that compute times.
type Calendar struct {
	Minutes, Hours, Days, Months, Weekdays []int // Weekdays: 0 is Sunday
	// EitherDay means that Days and Weekdays are both restricted, and that one of them is enough.
	EitherDay bool
	Date      time.Time // of "at DATE TIME": the clock time, in UTC, and the sets are empty; otherwise zero
}

// Calendar returns the times of a rule of the clock. For an interval it is empty.
func (r Rule) Calendar() Calendar {
	numbers := func(set uint64) (all []int) {
		for n := next(set, 0); n < 64; n = next(set, n+1) {
			all = append(all, n)
		}
		return all
	}
	return Calendar{Minutes: numbers(r.minute), Hours: numbers(r.hour), Days: numbers(r.day), Months: numbers(r.month),
		Weekdays: numbers(r.weekday), EitherDay: r.eitherDay, Date: r.date}
}

func (r Rule) matchDay(c time.Time) bool {
	day := r.day&(1<<c.Day()) != 0
	weekday := r.weekday&(1<<c.Weekday()) != 0
	if r.eitherDay {
		return day || weekday
	}
	return day && weekday
}

// next returns the first element of a set that is at least n; 64: there is none.
func next(set uint64, n int) int { return bits.TrailingZeros64(set &^ (1<<n - 1)) }

// wall returns what a clock shows, as a time in UTC.
func wall(t time.Time) time.Time {
	y, m, d := t.Date()
	return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// Moment returns the first moment at which clocks in a zone show a time or a later one. Only the date and the clock of
// the time count.
func Moment(clock time.Time, zone *time.Location) time.Time {
	clock = wall(clock)
	t := clock.Add(-36 * time.Hour).In(zone) // earlier than the moment in every zone, changes of a day included
	for {
		_, offset := t.Zone()
		start, end := t.ZoneBounds()
		at := clock.Add(-time.Duration(offset) * time.Second).In(zone)
		if !end.IsZero() && !end.After(t) {
			end = t.Add(time.Hour) // on the last day of a leap year ZoneBounds may return its beginning
		}
		switch {
		case !start.IsZero() && at.Before(start):
			if _, before := start.Add(-time.Second).Zone(); before != offset {
				return start.In(zone) // the gap ends
			}
			return at
		case end.IsZero() || at.Before(end):
			return at
		}
		t = end.In(zone)
	}
}

// Day returns the moments at which the day of a moment begins and ends in its zone.
func Day(t time.Time) (from, to time.Time) {
	y, m, d := t.Date()
	return Moment(time.Date(y, m, d, 0, 0, 0, 0, time.UTC), t.Location()),
		Moment(time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC), t.Location())
}

// Limits of an interval.
const (
	MinInterval = time.Second
	MaxInterval = 366 * 24 * time.Hour
)

const forms = `five cron fields ("0 9 * * MON-FRI"), "every 10m", "every weekday at 9:30", "@daily", "at 14:00", ` +
	`"at 2030-01-31 14:00" or "in 20m"`

// Parse parses a rule. The error says what is wrong with which part.
func Parse(text string) (Rule, error) {
	words := strings.Fields(text)
	r := Rule{text: strings.Join(words, " ")}
	if len(r.text) > 200 {
		return Rule{}, fmt.Errorf("%.20q…: too long for a time", r.text)
	}
	lower := strings.Fields(strings.ToLower(r.text))
	fail := func(format string, args ...any) (Rule, error) {
		return Rule{}, fmt.Errorf("%q: %s", r.text, fmt.Sprintf(format, args...))
	}
	if len(lower) == 0 {
		return Rule{}, fmt.Errorf("no time is given: %s", forms)
	}
	if fields, ok := shortcuts[lower[0]]; ok && len(lower) == 1 {
		return r.fields(strings.Fields(fields))
	}
	var err error
	switch lower[0] {
	case "every", "@every":
		if i := indexWord(lower, "at"); i > 0 {
			fields, err := everyDay(lower[1:i], lower[i+1:])
			if err != nil {
				return fail("%s", err)
			}
			return r.fields(fields)
		}
		if r.interval, err = interval(lower[1:]); err != nil {
			return fail("%s", err)
		}
		return r, nil
	case "in":
		r.once = true
		if r.interval, err = interval(lower[1:]); err != nil {
			return fail("%s", err)
		}
		return r, nil
	case "at":
		r.once = true
		rest := lower[1:]
		if len(rest) == 1 && strings.Contains(rest[0], "t") && strings.Contains(rest[0], "-") { // 2030-01-31t14:00
			date, clock, _ := strings.Cut(rest[0], "t")
			rest = []string{date, clock}
		}
		if len(rest) > 1 && strings.Contains(rest[0], "-") {
			day, err := time.Parse(time.DateOnly, rest[0])
			if err != nil {
				return fail("%s is not a date such as 2030-01-31", rest[0])
			}
			hour, minute, err := clockTime(strings.Join(rest[1:], ""))
			if err != nil {
				return fail("%s", err)
			}
			r.date = day.Add(time.Duration(hour*60+minute) * time.Minute)
			return r, nil
		}
		hour, minute, err := clockTime(strings.Join(rest, ""))
		if err != nil {
			return fail("%s", err)
		}
		return r.fields([]string{strconv.Itoa(minute), strconv.Itoa(hour), "*", "*", "*"})
	}
	if len(lower) != 5 {
		return fail("a time is %s", forms)
	}
	return r.fields(lower)
}

// AsOnce returns a rule that comes only once, at its first time.
func (r Rule) AsOnce() Rule {
	r.once = true
	return r
}

var shortcuts = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
	"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

func indexWord(words []string, w string) int {
	for i, x := range words {
		if x == w {
			return i
		}
	}
	return -1
}

// interval parses "10m", "1h30m", "10 minutes", "hour", "2 hours and 30 minutes".
func interval(words []string) (time.Duration, error) {
	example := "an interval is a number and a unit, such as 10m, 2h or 1d"
	s := strings.ReplaceAll(strings.Join(words, " "), " and ", " ")
	if s == "" {
		return 0, fmt.Errorf("%s", example)
	}
	if unit(s) > 0 { // "every hour"
		s = "1" + s
	}
	var sum time.Duration
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
		rest := strings.TrimLeft(s[digits:], " ")
		letters := len(rest) - len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz"))
		n, err := strconv.ParseInt(s[:digits], 10, 32)
		u := unit(rest[:letters])
		if err != nil || u == 0 {
			if words[0] == "month" || words[0] == "year" || dayNames[words[0]] != "" {
				return 0, fmt.Errorf("at which time? such as every %s at 9:00, or five cron fields", words[0])
			}
			return 0, fmt.Errorf("%s", example)
		}
		if sum += time.Duration(n) * u; sum > MaxInterval || time.Duration(n) > MaxInterval/u {
			return 0, fmt.Errorf("an interval is at most %d days", int(MaxInterval/(24*time.Hour)))
		}
		s = rest[letters:]
	}
	if sum < MinInterval {
		return 0, fmt.Errorf("an interval is at least %s", MinInterval)
	}
	return sum, nil
}

func unit(s string) time.Duration {
	switch s {
	case "s", "sec", "secs", "second", "seconds":
		return time.Second
	case "m", "min", "mins", "minute", "minutes":
		return time.Minute
	case "h", "hr", "hrs", "hour", "hours":
		return time.Hour
	case "d", "day", "days":
		return 24 * time.Hour
	case "w", "week", "weeks":
		return 7 * 24 * time.Hour
	}
	return 0
}

// dayNames are the days after "every", as a field of days of the week.
var dayNames = map[string]string{
	"day": "*", "weekday": "1-5", "weekdays": "1-5", "weekend": "0,6", "weekends": "0,6", "monday": "1", "tuesday": "2",
	"wednesday": "3", "thursday": "4", "friday": "5", "saturday": "6", "sunday": "0", "mon": "1", "tue": "2", "wed": "3",
	"thu": "4", "fri": "5", "sat": "6", "sun": "0",
}

// everyDay returns the fields of "DAYS at TIMES".
func everyDay(days, times []string) ([]string, error) {
	var weekdays []string
	for _, d := range splitAnd(days) {
		field, ok := dayNames[d]
		if !ok {
			return nil, fmt.Errorf("%s is not day, weekday, weekend or the name of a day", d)
		}
		weekdays = append(weekdays, field)
	}
	var hours, minutes []string
	for _, t := range splitAnd(times) {
		hour, minute, err := clockTime(t)
		if err != nil {
			return nil, err
		}
		hours, minutes = append(hours, strconv.Itoa(hour)), append(minutes, strconv.Itoa(minute))
		if minutes[0] != minutes[len(minutes)-1] {
			return nil, fmt.Errorf("several times have the same minute; otherwise make a schedule for each")
		}
	}
	if weekdays == nil || hours == nil {
		return nil, fmt.Errorf("a time is such as every weekday at 9:30")
	}
	field := strings.Join(weekdays, ",")
	if strings.Contains(field, "*") {
		field = "*"
	}
	return []string{minutes[0], strings.Join(hours, ","), "*", "*", field}, nil
}

// splitAnd splits "mon, tue and fri".
func splitAnd(words []string) []string {
	var all []string
	for w := range strings.FieldsFuncSeq(strings.Join(words, " "), func(r rune) bool { return r == ' ' || r == ',' }) {
		switch {
		case w == "and":
		case (w == "am" || w == "pm") && len(all) > 0: // "9 am"
			all[len(all)-1] += w
		default:
			all = append(all, w)
		}
	}
	return all
}

// clockTime parses "9", "9:30", "17:00", "9am", "5:30pm", "noon" and "midnight".
func clockTime(s string) (hour, minute int, err error) {
	bad := fmt.Errorf("%q is not a time of day such as 9, 9:30, 17:00 or 5pm", s)
	switch s {
	case "noon":
		return 12, 0, nil
	case "midnight":
		return 0, 0, nil
	}
	digits, half := s, ""
	if len(s) > 2 && (strings.HasSuffix(s, "am") || strings.HasSuffix(s, "pm")) {
		digits, half = s[:len(s)-2], s[len(s)-2:]
	}
	h, m, colon := strings.Cut(digits, ":")
	if hour, err = number(h, 0, 23); err != nil {
		return 0, 0, bad
	}
	if colon {
		if minute, err = number(m, 0, 59); err != nil || len(m) != 2 {
			return 0, 0, bad
		}
	}
	if half != "" {
		if hour < 1 || hour > 12 {
			return 0, 0, bad
		}
		hour %= 12
		if half == "pm" {
			hour += 12
		}
	}
	return hour, minute, nil
}

// number parses a number that consists only of digits.
func number(s string, low, high int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || strings.TrimLeft(s, "0123456789") != "" || n < low || n > high {
		return 0, fmt.Errorf("%q is not a number from %d to %d", s, low, high)
	}
	return n, nil
}

// A field is one of the five.
type field struct {
	name      string
	low, high int
	names     []string // of low, low+1 …
}

var cronFields = [5]field{
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day of the month", 1, 31, nil},
	{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{"day of the week", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// fields fills a rule from the five fields. Each is a list of N, A-B, * and ?, with a step (*/15, 10-40/10, 5/20).
func (r Rule) fields(text []string) (Rule, error) {
	sets := [5]*uint64{&r.minute, &r.hour, &r.day, &r.month, &r.weekday}
	for i, f := range cronFields {
		set, err := f.parse(text[i])
		if err != nil {
			return Rule{}, fmt.Errorf("%q: the %s %q: %w", r.text, f.name, text[i], err)
		}
		*sets[i] = set
	}
	r.weekday |= r.weekday >> 7 & 1 // 7 is Sunday, too
	// As in Vixie cron: a field that begins with * is no restriction for this purpose, even with a step.
	r.eitherDay = !strings.HasPrefix(text[2], "*") && text[2] != "?" && !strings.HasPrefix(text[4], "*") && text[4] != "?"
	if r.match(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return Rule{}, fmt.Errorf("%q: there is no such day", r.text)
	}
	return r, nil
}

func (f field) parse(text string) (set uint64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		span, stepText, stepped := strings.Cut(part, "/")
		step, low, high := 1, f.low, f.high
		if stepped {
			if step, err = number(stepText, 1, f.high); err != nil {
				return 0, fmt.Errorf("the step %w", err)
			}
		}
		switch from, to, isRange := strings.Cut(span, "-"); {
		case span == "*" || span == "?":
			if f.high == 7 {
				high = 6
			}
		case isRange:
			if low, err = f.value(from); err != nil {
				return 0, err
			}
			if high, err = f.value(to); err != nil {
				return 0, err
			}
			if high == 0 && f.high == 7 { // FRI-SUN
				high = 7
			}
			if low > high {
				return 0, fmt.Errorf("%s begins after it ends", span)
			}
		default:
			if low, err = f.value(span); err != nil {
				return 0, err
			}
			if !stepped {
				high = low
			} else if f.high == 7 {
				high = 6
			}
		}
		for n := low; n <= high; n += step {
			set |= 1 << n
		}
	}
	return set, nil
}

func (f field) value(s string) (int, error) {
	for i, name := range f.names {
		if s == name {
			return f.low + i, nil
		}
	}
	n, err := number(s, f.low, f.high)
	if err != nil && f.names != nil {
		err = fmt.Errorf("%w, nor a name such as %s", err, f.names[1])
	}
	return n, err
}
