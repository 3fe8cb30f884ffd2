package cron_test

import (
	"archive/zip"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/knack-agent/knack/internal/leaf/cron"
)

// zones returns every time zone of the Go installation, which does not depend on what the system has.
func zones(t *testing.T) map[string]*time.Location {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("the time zones of the Go installation are not there: ", err)
	}
	z, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(out)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Skip("the time zones of the Go installation are not there: ", err)
	}
	defer z.Close()
	all := map[string]*time.Location{}
	for _, f := range z.File {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		if all[f.Name], err = time.LoadLocationFromTZData(f.Name, data); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func parse(t *testing.T, text string) cron.Rule {
	t.Helper()
	r, err := cron.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// times returns the next times of a rule as text.
func times(r cron.Rule, after time.Time, n int) string {
	var all []string
	for t := after; n > 0; n-- {
		if t = r.Next(t, after); t.IsZero() {
			all = append(all, "never")
			break
		}
		all = append(all, t.Format("2006-01-02 15:04:05 MST"))
	}
	return strings.Join(all, ", ")
}

func TestNext(t *testing.T) {
	zone := zones(t)
	for _, c := range []struct{ rule, zone, after, want string }{
		{"30 2 * * *", "Europe/Berlin", "2026-03-28 12:00", "2026-03-29 03:00:00 CEST, 2026-03-30 02:30:00 CEST"},
		{"0,30 2-3 * * *", "Europe/Berlin", "2026-03-29 01:00", "2026-03-29 03:00:00 CEST, 2026-03-29 03:30:00 CEST"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", "2026-10-25 02:30:00 CEST, 2026-10-26 02:30:00 CET"},
		{"*/20 2-3 25 10 *", "Europe/Berlin", "2026-10-25 01:00", "2026-10-25 02:00:00 CEST, 2026-10-25 02:20:00 CEST, " +
			"2026-10-25 02:40:00 CEST, 2026-10-25 03:00:00 CET, 2026-10-25 03:20:00 CET"},
		{"every 40m", "Europe/Berlin", "2026-10-25 01:50", "2026-10-25 02:30:00 CEST, 2026-10-25 02:10:00 CET"},
		{"0 0,12 * * *", "America/Los_Angeles", "2028-12-30 12:00", "2028-12-31 00:00:00 PST, 2028-12-31 12:00:00 PST, " +
			"2029-01-01 00:00:00 PST"},
		{"every 1d", "Europe/Berlin", "2026-03-28 09:00", "2026-03-29 10:00:00 CEST"},
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03 12:00", "2026-10-04 02:30:00 +11, 2026-10-05 02:15:00 +11"},
		{"45 1 5 4 *", "Australia/Lord_Howe", "2026-04-01 00:00", "2026-04-05 01:45:00 +11, 2027-04-05 01:45:00 +1030"},
		{"0 9 30 12 *", "Pacific/Apia", "2011-12-01 00:00", "2011-12-31 00:00:00 +14, 2012-12-30 09:00:00 +14"},
		{"@daily", "America/Sao_Paulo", "2017-10-14 12:00", "2017-10-15 01:00:00 -02, 2017-10-16 00:00:00 -02"},
		{"@daily", "America/Havana", "2026-10-31 12:00", "2026-11-01 00:00:00 CDT, 2026-11-02 00:00:00 CST"},
		{"0 0 29 2 *", "UTC", "2026-01-01 00:00", "2028-02-29 00:00:00 UTC, 2032-02-29 00:00:00 UTC"},
		{"0 0 29 2 *", "UTC", "2096-12-01 00:00", "2104-02-29 00:00:00 UTC"},
		{"0 0 13 * FRI", "UTC", "2026-11-12 12:00", "2026-11-13 00:00:00 UTC, 2026-11-20 00:00:00 UTC"},
		{"0 0 */2 * 1", "UTC", "2026-11-01 12:00", "2026-11-09 00:00:00 UTC, 2026-11-23 00:00:00 UTC"},
		{"0 12 * * 5-7", "UTC", "2026-11-26 00:00",
			"2026-11-27 12:00:00 UTC, 2026-11-28 12:00:00 UTC, 2026-11-29 12:00:00 UTC"},
		{"0 12 * * fri-sun", "UTC", "2026-11-28 13:00", "2026-11-29 12:00:00 UTC, 2026-12-04 12:00:00 UTC"},
		{"5/20 0 1 jan ?", "UTC", "2026-12-01 00:00",
			"2027-01-01 00:05:00 UTC, 2027-01-01 00:25:00 UTC, 2027-01-01 00:45:00 UTC, " +
				"2028-01-01 00:05:00 UTC"},
		{"every weekday at 9:30", "UTC", "2026-11-27 09:30", "2026-11-30 09:30:00 UTC"},
		{"every mon, wed and fri at 9am and 5 pm", "UTC", "2026-11-23 09:00",
			"2026-11-23 17:00:00 UTC, 2026-11-25 09:00:00 UTC"},
		{"every day at noon", "UTC", "2026-11-23 12:00", "2026-11-24 12:00:00 UTC"},
		{"at 14:00", "UTC", "2026-11-23 13:00", "2026-11-23 14:00:00 UTC, never"},
		{"at 12am", "UTC", "2026-11-23 13:00", "2026-11-24 00:00:00 UTC, never"},
		{"at 2026-03-29 02:30", "Europe/Berlin", "2026-01-01 00:00", "2026-03-29 03:00:00 CEST, never"},
		{"at 2026-03-29T02:30", "UTC", "2026-03-29 02:30", "never"},
		{"in 90s", "UTC", "2026-11-23 13:00", "2026-11-23 13:01:30 UTC, never"},
		{"every 1 hour and 30 minutes", "UTC", "2026-11-23 13:00", "2026-11-23 14:30:00 UTC, 2026-11-23 16:00:00 UTC"},
		{"Every Hour", "UTC", "2026-11-23 13:10", "2026-11-23 14:10:00 UTC"},
	} {
		after, err := time.ParseInLocation("2006-01-02 15:04", c.after, zone[c.zone])
		if err != nil {
			t.Fatal(err)
		}
		if got := times(parse(t, c.rule), after, strings.Count(c.want, ",")+1); got != c.want {
			t.Errorf("%s after %s in %s:\n got %s\nwant %s", c.rule, c.after, c.zone, got, c.want)
		}
	}
}

// TestIntervalStart: an interval counts from its start, whatever the last time was and however late it came.
func TestIntervalStart(t *testing.T) {
	start := time.Date(2026, 11, 23, 9, 0, 7, 0, time.UTC)
	r := parse(t, "every 10m")
	for after, want := range map[time.Duration]time.Duration{
		-48 * time.Hour: 10 * time.Minute, 0: 10 * time.Minute, 10*time.Minute - 1: 10 * time.Minute,
		10 * time.Minute: 20 * time.Minute, 7*24*time.Hour + time.Second: 7*24*time.Hour + 10*time.Minute,
	} {
		if got := r.Next(start.Add(after), start).Sub(start); got != want {
			t.Errorf("%s after the start: %s, want %s", after, got, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "no time is given",
		"hello":                       "a time is five cron fields",
		"* * * *":                     "a time is five cron fields",
		"0 0 9 * * *":                 "a time is five cron fields",
		"60 * * * *":                  `the minute "60": "60" is not a number from 0 to 59`,
		"* 5-3 * * *":                 "5-3 begins after it ends",
		"*/0 * * * *":                 `the step "0" is not a number from 1 to 59`,
		"* * 0 * *":                   "not a number from 1 to 31",
		"* * * foo *":                 "nor a name such as feb",
		"0 0 31 2 *":                  "there is no such day",
		"0 0 31 4,6,9,11 *":           "there is no such day",
		"1,,2 * * * *":                `"" is not a number`,
		"+1 * * * *":                  `"+1" is not a number`,
		"every":                       "an interval is a number and a unit",
		"every 10":                    "an interval is a number and a unit",
		"every m10":                   "an interval is a number and a unit",
		"every -5m":                   "an interval is a number and a unit",
		"every 0m":                    "at least 1s",
		"every 9999999999m":           "an interval is a number and a unit",
		"every 999999999w":            "at most 366 days",
		"every weekday":               "at which time? such as every weekday at 9:00",
		"every someday at 9":          "someday is not day, weekday",
		"every day at 25":             `"25" is not a time of day`,
		"every day at 9:5":            `"9:5" is not a time of day`,
		"every day at 13pm":           `"13pm" is not a time of day`,
		"every day at 9:00 and 10:30": "several times have the same minute",
		"every day at":                "a time is such as",
		"at":                          `"" is not a time of day`,
		"at 2026-02-30 09:00":         "2026-02-30 is not a date",
		"at 2026-02-28 soon":          `"soon" is not a time of day`,
		"in":                          "an interval is a number and a unit",
		strings.Repeat("1,", 200):     "too long",
	} {
		_, err := cron.Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"*/10 9-17 * * MON-FRI", "every 1h30m", "every weekday at 9 and 10", "at 2026-01-01 5pm",
		"@daily"} {
		f.Add(s)
	}
	start := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := cron.Parse(text)
		if err != nil {
			return
		}
		if again, err := cron.Parse(r.String()); err != nil || again != r {
			t.Fatalf("%q: parsed again as %v, %v", text, again, err)
		}
		if next := r.Next(start, start); !next.IsZero() && !next.After(start) {
			t.Fatalf("%q: %s is not after %s", text, next, start)
		}
	})
}

// fields draws five cron fields that often match, so that times fall into changes of the clock.
func fields(t *rapid.T) string {
	pick := func(name string, options ...string) string { return rapid.SampledFrom(options).Draw(t, name) }
	return strings.Join([]string{
		pick("minute", "*", "0", "30", "*/7", "15,45", "59", "10-20"),
		pick("hour", "*", "0", "1", "2", "3", "23", "*/5", "0-3", "1,2"),
		pick("day", "*", "*", "1", "28-31", "*/2"),
		pick("month", "*", "*", "3,4,9-11"),
		pick("weekday", "*", "*", "0", "6-7", "1-5"),
	}, " ")
}

// TestChanges compares Next with a clock that is watched second by second or minute by minute, around random changes of
// the clock in all zones: what matches runs when the clock first shows it or passes it.
func TestChanges(t *testing.T) {
	all := zones(t)
	// changes holds the moments since 1970 at which the clock of a zone changes.
	changes := map[string][]time.Time{}
	var names []string
	for name, zone := range all {
		for at := time.Date(1970, 1, 2, 0, 0, 0, 0, zone); at.Year() < 2040; {
			_, end := at.ZoneBounds()
			if end.IsZero() {
				break
			}
			if !end.After(at) { // the last day of a leap year
				changes[name] = append(changes[name], at)
				at = at.Add(24 * time.Hour)
				continue
			}
			_, before := at.Zone()
			if _, offset := end.Zone(); before != offset {
				changes[name] = append(changes[name], end)
			}
			at = end
		}
		if changes[name] != nil {
			names = append(names, name)
		}
	}
	if len(names) < 300 {
		t.Fatalf("only %d zones with changes", len(names))
	}
	check := func(fail func(string, ...any), text string, change time.Time) {
		r := parse(t, text)
		_, offset := change.Zone()
		_, before := change.Add(-time.Second).Zone()
		step := time.Minute
		if offset%60 != 0 || before%60 != 0 {
			step = time.Second
		}
		zone := change.Location()
		around := 4 * time.Hour
		if max(offset-before, before-offset) > 2*60*60 { // of a day
			around = 27 * time.Hour
		}
		from, to := change.Add(-around).Truncate(time.Minute), change.Add(around)
		var want []string
		high := clock(from)
		for at := from.Add(step); !at.After(to); at = at.Add(step) {
			now := clock(at)
			runs := false
			for ; high.Before(now); high = high.Add(step) {
				runs = runs || matches(text, high.Add(step))
			}
			if runs {
				want = append(want, at.In(time.UTC).Format(time.RFC3339))
			}
		}
		var got []string
		for at := r.Next(from, from); !at.IsZero() && !at.After(to); at = r.Next(at, from) {
			got = append(got, at.In(time.UTC).Format(time.RFC3339))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			fail("%s in %s around %s:\n got %v\nwant %v", text, zone, change, got, want)
		}
	}
	for _, name := range names { // one change in each zone at least
		list := changes[name]
		check(t.Errorf, "30 0,1,2,3,23 * * *", list[len(list)-1])
	}
	rapid.Check(t, func(t *rapid.T) {
		change := rapid.SampledFrom(changes[rapid.SampledFrom(names).Draw(t, "zone")]).Draw(t, "change")
		check(t.Fatalf, fields(t), change)
	})
}

func clock(t time.Time) time.Time {
	y, m, d := t.Date()
	return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

// matches reports whether the fields name a clock time: written without what the package uses.
func matches(text string, c time.Time) bool {
	if c.Second() != 0 {
		return false
	}
	f := strings.Fields(text)
	in := func(field string, n, low int) bool {
		for part := range strings.SplitSeq(field, ",") {
			var a, b, step int
			switch {
			case part == "*":
				return true
			case strings.HasPrefix(part, "*/"):
				fmt.Sscanf(part, "*/%d", &step)
				if (n-low)%step == 0 {
					return true
				}
			case strings.Contains(part, "-"):
				fmt.Sscanf(part, "%d-%d", &a, &b)
				if a <= n && n <= b {
					return true
				}
			default:
				if fmt.Sscanf(part, "%d", &a); a == n {
					return true
				}
			}
		}
		return false
	}
	day, weekday := in(f[2], c.Day(), 1), in(f[4], int(c.Weekday()), 0) || c.Weekday() == 0 && in(f[4], 7, 0)
	if f[2][0] != '*' && f[4][0] != '*' {
		day = day || weekday
	} else {
		day = day && weekday
	}
	return in(f[0], c.Minute(), 0) && in(f[1], c.Hour(), 0) && day && in(f[3], int(c.Month()), 1)
}

func TestDay(t *testing.T) {
	zone := zones(t)["America/Sao_Paulo"]
	from, to := cron.Day(time.Date(2017, 10, 15, 12, 0, 0, 0, zone)) // midnight was skipped
	if from.Format(time.RFC3339) != "2017-10-15T01:00:00-02:00" || to.Format(time.RFC3339) != "2017-10-16T00:00:00-02:00" {
		t.Errorf("the day is %s to %s", from, to)
	}
}
