package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"martlet/object-server/bundle/format"
	"martlet/object-server/server/message"
	"martlet/object-server/server/versionid"
)

// place is where a name is.
type place struct {
	policy   int
	replicas []*remote
}

func (l *Lifecycle) placeOf(policy int, p *plan) (*place, error) {
	current, err := l.config.Rings.Object(policy)
	if current == nil { // else an error says that it is the ring from before
		return nil, fmt.Errorf("lifecycle: the ring of policy %d cannot be read: %w", policy, err)
	}
	return &place{policy, l.replicas(current, l.config.Hasher.Object(p.account, p.container, p.key))}, nil
}

// verdict is what the replicas of a name say of its current version.
type verdict int

const (
	isTheSame  verdict = iota
	isChanged          // one has another one
	isNotKnown         // too few answer
)

// agree asks all replicas of a name for its current version. It returns those that answer.
func (p *plan) agree(ctx context.Context, at *place) (reached []*remote, v verdict) {
	answers, _ := everywhere(ctx, at.replicas, func(int) *request { return p.head(at) })
	for i, a := range answers {
		switch {
		case a == nil || a.status/100 == 5:
			continue
		case !p.current.isIn(a):
			return nil, isChanged
		}
		reached = append(reached, at.replicas[i])
	}
	if len(reached) <= len(at.replicas)/2 {
		return nil, isNotKnown
	}
	return reached, isTheSame
}

func (p *plan) path() string { return "/" + p.account + "/" + p.container + "/" + p.key }

func (p *plan) head(at *place) *request {
	return &request{name: "object.head", path: p.path(), headers: map[string]string{
		message.PolicyIndex.Name(): strconv.Itoa(at.policy), message.OpenExpired.Name(): "true",
	}}
}

// headOf is a HEAD of a version.
func (p *plan) headOf(at *place, id string) *request {
	q := p.head(at)
	q.headers[message.VersionID.Name()] = id
	return q
}

// isIn tells whether an answer to a HEAD is about this version, and sure of it.
func (c *current) isIn(a *answer) bool {
	id := ""
	if c.isVersioned && (c.isLive || c.isMarker) {
		id = versionid.Text(c.id)
	}
	if a.headers["x-backend-doubt"] != "" || a.headers["x-backend-version-id"] != id {
		return false
	}
	switch {
	case c.isLive:
		isSame := a.headers["x-backend-data-timestamp"] == c.since.String() && a.headers[strings.ToLower(taggingHeader)] == onWire(c.tags)
		return a.status == http.StatusOK && isSame
	case c.isMarker:
		return a.status == http.StatusNotFound && a.headers["x-backend-version-marker"] != ""
	}
	return a.status == http.StatusNotFound
}

// onWire is a stored header as answers have it: each character is a byte.
func onWire(text string) string {
	characters := make([]rune, len(text))
	for i := range len(text) {
		characters[i] = rune(text[i])
	}
	return string(characters)
}

// stampMargin is how long before now a deletion is dated at most, so that a write which is under way wins over it.
const stampMargin = time.Minute

// stamp is the timestamp of the deletion of what was written at a time.
func stamp(since format.Timestamp) format.Timestamp {
	ticks := now().Ticks
	if ticks <= since.Ticks { // a clock is wrong
		return format.Timestamp{Ticks: since.Ticks + 1}
	}
	margin := min((ticks-since.Ticks)/2, uint64(stampMargin/time.Second)*format.TicksPerSecond)
	return format.Timestamp{Ticks: ticks - margin}
}

// deletion is a DELETE at the replicas of a name.
type deletion struct {
	*plan
	at      *place
	reached []*remote
	update  []map[string]string // the headers that name the container's replicas, for each of reached
}

// prepare makes the deletions of a plan possible: its container's replicas are told, too, each by one of the object's.
func (d *device) prepare(p *plan, at *place, reached []*remote) (*deletion, error) {
	containers, err := d.containerReplicas(p.account, p.container)
	if err != nil {
		return nil, err
	}
	x := &deletion{plan: p, at: at, reached: reached, update: make([]map[string]string, len(reached))}
	for i, c := range containers {
		u := &x.update[i%len(reached)]
		if *u == nil {
			*u = map[string]string{
				message.ContainerPartition.Name(): strconv.FormatUint(uint64(c.partition), 10),
				message.ContainerHost.Name():      c.address, message.ContainerDevice.Name(): c.device,
			}
			continue
		}
		(*u)[message.ContainerHost.Name()] += "," + c.address
		(*u)[message.ContainerDevice.Name()] += "," + c.device
	}
	return x, nil
}

// send sends a DELETE to the replicas of the name.
func (x *deletion) send(ctx context.Context, t format.Timestamp, headers map[string]string, body []byte) ([]*answer, []error) {
	return everywhere(ctx, x.reached, func(i int) *request {
		q := &request{name: "object.delete", path: x.path(), body: body, headers: map[string]string{
			message.Timestamp.Name(): t.String(), message.PolicyIndex.Name(): strconv.Itoa(x.at.policy),
		}}
		for _, more := range []map[string]string{headers, x.update[i]} {
			for name, value := range more {
				q.headers[name] = value
			}
		}
		return q
	})
}

// outcome is what became of a deletion.
type outcome int

const (
	isDone outcome = iota
	isRefused
	isOvertaken // by another write
	isFailed
)

// outcomeOf is that of an answer to a DELETE.
func outcomeOf(status int) outcome {
	switch status {
	case http.StatusOK, http.StatusNoContent, http.StatusNotFound:
		return isDone
	case http.StatusForbidden: // a lock
		return isRefused
	case http.StatusConflict, http.StatusPreconditionFailed:
		return isOvertaken
	}
	return isFailed
}

// worst is the outcome at all replicas.
func worst(answers []*answer) (o outcome) {
	for _, a := range answers {
		if a == nil {
			return isFailed
		}
		o = max(o, outcomeOf(a.status))
	}
	return o
}

// carryOut does what is due for a name.
func (d *device) carryOut(ctx context.Context, p *plan, at *place) {
	reached, v := p.agree(ctx, at)
	switch v {
	case isChanged:
		d.count(func(r *Report) { r.Changed++ })
		return
	case isNotKnown:
		d.count(func(r *Report) { r.Failures++ })
		return
	}
	if !p.takeExcess(ctx, at, reached) {
		d.count(func(r *Report) { r.Changed++ })
	}
	if p.isLockable {
		d.leaveLocked(ctx, p, at)
	}
	x, err := d.prepare(p, at, reached)
	if err != nil { // the rings have logged it
		d.count(func(r *Report) { r.Failures++ })
		return
	}
	d.removeVersions(ctx, x)
	d.removeNull(ctx, x)
	switch {
	case p.marker:
		d.removeMarker(ctx, x)
	case p.expire:
		d.expire(ctx, x)
	case p.begun != nil:
		d.abort(ctx, x)
	}
	d.dropLater(p.partsPolicy, p.uploads) // they stay with a version that was not removed
}

// takeExcess adds the versions in excess to those that go, if each replica that answers has the versions that are kept in their
// place. A removal of one of these that is acknowledged has come to one of the replicas at least: more than half answer.
func (p *plan) takeExcess(ctx context.Context, at *place, reached []*remote) bool {
	x := &p.excess
	if x.isEmpty() {
		return true
	}
	for _, id := range x.kept() {
		answers, _ := everywhere(ctx, reached, func(int) *request { return p.headOf(at, id) })
		for _, a := range answers {
			isThere := a != nil && (a.status == http.StatusOK || a.status == http.StatusNotFound && a.headers["x-backend-version-marker"] != "")
			if !isThere {
				return false
			}
		}
	}
	p.versions = append(p.versions, x.versions...)
	if !x.null.IsZero() {
		p.null = x.null
	}
	return true
}

// leaveLocked takes the versions out of a plan that a replica knows to be locked. One that has missed the lock would remove a
// version, with its row in the container. Replication brings back the version, but not the row.
func (d *device) leaveLocked(ctx context.Context, p *plan, at *place) {
	free := make([]string, 0, len(p.versions))
	for _, id := range p.versions {
		if p.isLocked(ctx, at, id) {
			d.count(func(r *Report) { r.Refused++ })
		} else {
			free = append(free, id)
		}
	}
	p.versions = free
	if !p.null.IsZero() && p.isLocked(ctx, at, versionid.Text(versionid.OfNull(p.null))) {
		d.count(func(r *Report) { r.Refused++ })
		p.null = format.Timestamp{}
	}
}

// isLocked tells whether a replica says that a version is locked.
func (p *plan) isLocked(ctx context.Context, at *place, id string) bool {
	answers, _ := everywhere(ctx, at.replicas, func(int) *request { return p.headOf(at, id) })
	for _, a := range answers {
		if a == nil {
			continue
		}
		until, err := format.ParseTimestamp(a.headers[strings.ToLower(message.LockUntil.Name())])
		if a.headers[strings.ToLower(message.LockHold.Name())] == "on" || err == nil && until.Compare(now()) > 0 {
			return true
		}
	}
	return false
}

// told counts an outcome, and tells whether it is done.
func (d *device) told(o outcome, done func(r *Report)) bool {
	d.count(func(r *Report) {
		switch o {
		case isDone:
			done(r)
		case isRefused:
			r.Refused++
		case isOvertaken:
			r.Changed++
		case isFailed:
			r.Failures++
		}
	})
	return o == isDone
}

// expire deletes the current version: a delete marker hides it where the container has versions.
func (d *device) expire(ctx context.Context, x *deletion) {
	if d.objects.Wait(ctx, 1) != nil {
		return
	}
	t := stamp(x.current.since)
	headers := map[string]string{message.IfTimestamp.Name(): x.current.since.String()}
	switch x.mark {
	case nullMark:
		headers[message.VersionID.Name()], headers[message.VersionMarker.Name()] = versionid.Null, "true"
	case newMark:
		headers[message.VersionID.Name()], headers[message.VersionMarker.Name()] = t.String(), "true"
	}
	answers, _ := x.send(ctx, t, headers, nil)
	d.told(worst(answers), func(r *Report) { r.Expired++ })
}

// removeMarker removes a delete marker. What is older and comes late stays hidden.
func (d *device) removeMarker(ctx context.Context, x *deletion) {
	if d.objects.Wait(ctx, 1) != nil {
		return
	}
	answers, _ := x.send(ctx, stamp(x.current.since), map[string]string{
		message.VersionID.Name(): x.current.since.String(), message.VersionHide.Name(): "true", // its id, also of a null one
	}, nil)
	d.told(worst(answers), func(r *Report) { r.Markers++ })
}

// removeNull removes the null version, under the id that it got when it was replaced.
func (d *device) removeNull(ctx context.Context, x *deletion) {
	if x.null.IsZero() || d.objects.Wait(ctx, 1) != nil {
		return
	}
	headers := map[string]string{message.VersionID.Name(): versionid.Text(versionid.OfNull(x.null))}
	answers, _ := x.send(ctx, stamp(x.null), headers, nil)
	d.told(worst(answers), func(r *Report) { r.Removed++ })
}

// listMax is how many versions one request removes.
const listMax = 2048

// removeVersions removes versions that are not current, many with one request.
func (d *device) removeVersions(ctx context.Context, x *deletion) {
	for left := x.versions; len(left) > 0; {
		some := left[:min(listMax, len(left))]
		left = left[len(some):]
		if d.objects.Wait(ctx, int64(len(some))) != nil {
			return
		}
		d.removeSome(ctx, x, some)
	}
}

func (d *device) removeSome(ctx context.Context, x *deletion, ids []string) {
	body, _ := json.Marshal(ids) // strings
	answers, _ := x.send(ctx, now(), map[string]string{message.VersionList.Name(): "true"}, body)
	all := make([]outcome, len(ids))
	for _, a := range answers {
		var statuses []int
		if a == nil || a.status != http.StatusOK || json.Unmarshal(a.body, &statuses) != nil || len(statuses) != len(ids) {
			d.count(func(r *Report) { r.Failures += len(ids) })
			return
		}
		for i, status := range statuses {
			all[i] = max(all[i], outcomeOf(status))
		}
	}
	for _, o := range all {
		d.told(o, func(r *Report) { r.Removed++ })
	}
}

// abort ends an upload: no part can be added to it from now on, and it cannot be completed. Its parts go later, when a
// request to complete it that was under way has ended.
func (d *device) abort(ctx context.Context, x *deletion) {
	if d.objects.Wait(ctx, 1) != nil {
		return
	}
	answers, _ := x.send(ctx, stamp(x.current.since), map[string]string{message.IfTimestamp.Name(): x.current.since.String()}, nil)
	if d.told(worst(answers), func(r *Report) { r.Aborted++ }) {
		d.dropLater(x.partsPolicy, []upload{*x.begun})
	}
}
