package lifecycle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Rule is a lifecycle rule of a bucket; doc/formats/s3-lifecycle.md has the fields.
type Rule struct {
	ID             string            `json:"id"`
	IsEnabled      bool              `json:"is_enabled"`
	Form           string            `json:"form"`
	Prefix         string            `json:"prefix"`
	Tags           map[string]string `json:"tags"`
	LargerThan     *int64            `json:"larger_than"`
	SmallerThan    *int64            `json:"smaller_than"`
	Days           *int64            `json:"days"`
	Date           *int64            `json:"date"`
	DeleteMarkers  bool              `json:"delete_markers"`
	NoncurrentDays *int64            `json:"noncurrent_days"`
	NewerVersions  *int64            `json:"newer_versions"`
	AbortDays      *int64            `json:"abort_days"`
}

// rulesFormat is that of the document.
const rulesFormat = 1

// ParseRules reads the stored rules of a bucket. Rules that are not enabled are left out.
func ParseRules(document []byte) ([]Rule, error) {
	var stored struct {
		Format int    `json:"format"`
		Rules  []Rule `json:"rules"`
	}
	d := json.NewDecoder(bytes.NewReader(document))
	d.DisallowUnknownFields()
	if err := d.Decode(&stored); err != nil {
		return nil, fmt.Errorf("lifecycle: rules: %w", err)
	}
	if stored.Format != rulesFormat {
		return nil, fmt.Errorf("lifecycle: rules of format %d", stored.Format)
	}
	if d.More() {
		return nil, errors.New("lifecycle: something follows the rules")
	}
	enabled := stored.Rules[:0]
	for i := range stored.Rules {
		if stored.Rules[i].IsEnabled {
			enabled = append(enabled, stored.Rules[i])
		}
	}
	return enabled, nil
}

// State is what a version is to its name.
type State int

// The states. A rule is about some of them each.
const (
	Current State = iota
	Noncurrent
	Marker           // the current version is a delete marker
	NoncurrentMarker // a delete marker that is not the current version
	Upload           // a multipart upload that is under way
)

// Facts are what a rule may ask about a version.
type Facts struct {
	Key     string
	Size    int64
	Tags    map[string]string
	Written time.Time
	State   State
	Since   time.Time // of a version that is not current: when the next newer one was written
	Newer   int       // of such a version: how many others are newer than it and not current
	IsOnly  bool      // the name has no other version
}

// Action is what is to be done with a version.
type Action int

// The actions.
const (
	Keep   Action = iota
	Expire        // as a DELETE without a version would do
	Remove        // the version
	Abort         // the upload
)

// Decide tells what the rules say about a version now, and which rule: of those that are due the one that was due first.
func Decide(rules []Rule, f *Facts, now time.Time, day time.Duration) (action Action, rule *Rule) {
	var since time.Time
	for i := range rules {
		r := &rules[i]
		if !r.IsEnabled || !r.matches(f) {
			continue
		}
		does, due, ok := r.due(f, day)
		if ok && !due.After(now) && (rule == nil || due.Before(since)) {
			action, rule, since = does, r, due
		}
	}
	return action, rule
}

func (r *Rule) matches(f *Facts) bool {
	if !strings.HasPrefix(f.Key, r.Prefix) || r.LargerThan != nil && f.Size <= *r.LargerThan || r.SmallerThan != nil && f.Size >= *r.SmallerThan {
		return false
	}
	for name, value := range r.Tags {
		if has, ok := f.Tags[name]; !ok || has != value {
			return false
		}
	}
	return true
}

// due tells what a rule that matches does with a version, and from when on; ok is false if it never does anything.
func (r *Rule) due(f *Facts, day time.Duration) (does Action, at time.Time, ok bool) {
	switch f.State {
	case Current, Marker:
		does = Expire
		if f.State == Marker {
			if does = Remove; !f.IsOnly {
				return Keep, at, false
			}
			if r.DeleteMarkers {
				return does, f.Written, true
			}
		}
		if r.Days != nil {
			return does, dueAfter(f.Written, *r.Days, day), true
		}
		if r.Date != nil {
			return does, time.Unix(*r.Date, 0), true
		}
	case Noncurrent, NoncurrentMarker:
		if r.NewerVersions != nil && int64(f.Newer) < *r.NewerVersions {
			return Keep, at, false
		}
		if r.NoncurrentDays != nil {
			return Remove, dueAfter(f.Since, *r.NoncurrentDays, day), true
		}
		return Remove, f.Since, r.NewerVersions != nil
	case Upload:
		if r.AbortDays != nil {
			return Abort, dueAfter(f.Written, *r.AbortDays, day), true
		}
	}
	return Keep, at, false
}

// dueAfter is the midnight (UTC) at which so many whole days have passed.
func dueAfter(since time.Time, days int64, day time.Duration) time.Time {
	seconds := int64(day / time.Second)
	return time.Unix((since.Unix()/seconds+days+1)*seconds, 0)
}
