package lifecycle

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"martlet/object-server/proof"
)

var check = proof.Check

func golden(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile("../../test/golden/" + name)
	check(t, err)
	check(t, json.Unmarshal(b, into))
}

// Both languages decide the same.
func TestCasesOfBothLanguages(t *testing.T) {
	var cases []struct {
		What   string `json:"what"`
		Rules  string `json:"rules"`
		Object struct {
			Key     string            `json:"key"`
			Size    int64             `json:"size"`
			Tags    map[string]string `json:"tags"`
			Written int64             `json:"written"`
			State   string            `json:"state"`
			Since   int64             `json:"since"`
			Newer   int               `json:"newer"`
			Only    bool              `json:"only"`
		} `json:"object"`
		Now    int64  `json:"now"`
		Day    int    `json:"day"`
		Action string `json:"action"`
		Rule   string `json:"rule"`
	}
	golden(t, "s3-lifecycle.json", &cases)
	states := map[string]State{"current": Current, "noncurrent": Noncurrent, "marker": Marker, "noncurrent marker": NoncurrentMarker, "upload": Upload}
	actions := map[Action]string{Keep: "none", Expire: "expire", Remove: "remove", Abort: "abort"}
	for _, c := range cases {
		rules, err := ParseRules([]byte(c.Rules))
		check(t, err)
		o := &c.Object
		facts := Facts{
			Key: o.Key, Size: o.Size, Tags: o.Tags, Written: time.Unix(o.Written, 0), State: states[o.State],
			Since: time.Unix(o.Since, 0), Newer: o.Newer, IsOnly: o.Only,
		}
		action, rule := Decide(rules, &facts, time.Unix(c.Now, 0), time.Duration(c.Day)*time.Second)
		id := ""
		if rule != nil {
			id = rule.ID
		}
		if actions[action] != c.Action || id != c.Rule {
			t.Errorf("%s: %s by %q, not %s by %q", c.What, actions[action], id, c.Action, c.Rule)
		}
	}
	if len(cases) < 40 {
		t.Errorf("%d cases", len(cases))
	}
}

func drawRule(t *rapid.T) Rule {
	number := func(name string, most int64) *int64 {
		if n := rapid.Int64Range(-1, most).Draw(t, name); n >= 0 {
			return &n
		}
		return nil
	}
	return Rule{
		ID: "r", IsEnabled: rapid.Bool().Draw(t, "enabled"), Prefix: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "prefix"),
		LargerThan: number("larger", 5), Days: number("days", 3), NoncurrentDays: number("noncurrent", 3), NewerVersions: number("newer", 3),
		DeleteMarkers: rapid.Bool().Draw(t, "markers"), AbortDays: number("abort", 3),
	}
}

// What is due stays due, more rules never keep more, and a version that is kept by all rules alone is kept by them together.
func TestDecisions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := rapid.SliceOfN(rapid.Custom(drawRule), 0, 3).Draw(t, "rules")
		f := Facts{
			Key: rapid.SampledFrom([]string{"a/x", "b"}).Draw(t, "key"), Size: rapid.Int64Range(0, 9).Draw(t, "size"),
			State: State(rapid.IntRange(0, 4).Draw(t, "state")), Newer: rapid.IntRange(0, 4).Draw(t, "newer versions"),
			Written: time.Unix(rapid.Int64Range(0, 50).Draw(t, "written"), 0), IsOnly: rapid.Bool().Draw(t, "only"),
		}
		f.Since = f.Written.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "since")) * time.Second)
		now := f.Since.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "age")) * time.Second)
		const day = 10 * time.Second
		action, rule := Decide(rules, &f, now, day)
		if (action == Keep) != (rule == nil) {
			t.Fatalf("%v by %v", action, rule)
		}
		if later, _ := Decide(rules, &f, now.Add(day), day); action != Keep && later != action {
			t.Errorf("%v becomes %v", action, later)
		}
		alone := Keep
		for i := range rules {
			one, _ := Decide(rules[i:i+1], &f, now, day)
			alone = max(alone, one)
		}
		if alone != action {
			t.Errorf("%v together, %v alone", action, alone)
		}
		if rule == nil {
			return
		}
		if !rule.IsEnabled || !strings.HasPrefix(f.Key, rule.Prefix) {
			t.Errorf("%v by %+v", action, rule)
		}
		if action == Expire && now.Sub(f.Written) < time.Duration(*rule.Days)*day {
			t.Errorf("too early by %+v", rule)
		}
		if f.State == Noncurrent && rule.NewerVersions != nil && int64(f.Newer) < *rule.NewerVersions {
			t.Errorf("one that %+v keeps", rule)
		}
	})
}

func TestRulesOfAnotherForm(t *testing.T) {
	for _, text := range []string{
		"", "[]", `{"format":2,"rules":[]}`, `{"format":1,"rules":[{"id":"a","is_enabled":true,"other":1}]}`,
		`{"format":1,"rules":[{"id":"a","is_enabled":true,"days":"1"}]}`, `{"format":1,"rules":[]}{}`,
	} {
		if rules, err := ParseRules([]byte(text)); err == nil {
			t.Errorf("%s: %v", text, rules)
		}
	}
}

func TestSettings(t *testing.T) {
	var all []struct {
		Name     string            `json:"name"`
		Document string            `json:"document"`
		Headers  map[string]string `json:"headers"`
	}
	golden(t, "s3-settings.json", &all)
	for _, one := range all {
		headers := map[string]string{}
		for name, value := range one.Headers {
			headers[strings.ToLower(name)] = value
		}
		found, err := setting(headers, one.Name)
		check(t, err)
		if string(found) != one.Document {
			t.Errorf("%s is %.80q", one.Name, found)
		}
	}
	const name = "X-Container-Sysmeta-S3Api-Setting-Lifecycle"
	for _, damaged := range []string{"1:", "x", "2:eJyr", "1:====", "1:eJyr"} {
		if _, err := setting(map[string]string{strings.ToLower(http.CanonicalHeaderKey(name)): damaged}, "Lifecycle"); err == nil {
			t.Errorf("%s was read", damaged)
		}
	}
	if found, err := setting(map[string]string{}, "Lifecycle"); found != nil || err != nil {
		t.Errorf("%v, %v", found, err)
	}
}
