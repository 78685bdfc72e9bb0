package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"martlet/object-server/bundle/format"
	"martlet/object-server/server/versionid"
)

// parts are those of an upload that go. They wait, so that a request to complete the upload that was under way has ended.
type parts struct {
	upload
	Policy int       `json:"policy"` // of their container
	Since  time.Time `json:"since"`  // they wait from then on
}

const (
	partsWait  = 10 * time.Minute
	waitingMax = 5_000 // uploads
)

// wait is how long parts wait.
func (d *device) wait() time.Duration { return min(partsWait, d.config.Day/10) }

func (d *device) hasRoom() bool {
	d.counting.Lock()
	defer d.counting.Unlock()
	return len(d.waiting) < waitingMax
}

// dropLater notes uploads whose parts go.
func (d *device) dropLater(policy int, all []upload) {
	d.counting.Lock()
	defer d.counting.Unlock()
	for _, u := range all {
		d.waiting = append(d.waiting, parts{u, policy, time.Now()})
	}
}

// dueParts takes the uploads that have waited for long enough.
func (d *device) dueParts() (due []parts) {
	d.counting.Lock()
	defer d.counting.Unlock()
	left := make([]parts, 0, len(d.waiting))
	for _, w := range d.waiting {
		if time.Since(w.Since) >= d.wait() {
			due = append(due, w)
		} else {
			left = append(left, w)
		}
	}
	d.waiting = left
	return due
}

func (d *device) hasDue() bool {
	d.counting.Lock()
	defer d.counting.Unlock()
	for i := range d.waiting {
		if time.Since(d.waiting[i].Since) >= d.wait() {
			return true
		}
	}
	return false
}

// dropDue deletes the parts that have waited for long enough. What fails waits again.
func (d *device) dropDue(ctx context.Context) {
	for _, w := range d.dueParts() {
		err := d.drop(ctx, &w)
		if err == nil {
			continue
		}
		if ctx.Err() == nil {
			d.config.Logger.Warn("the parts of an upload are not deleted yet", "device", d.name, "account", w.Account,
				"container", w.Bucket, "key", w.Key, "upload", w.ID, "error", err)
			d.count(func(r *Report) { r.Failures++ })
		}
		d.dropLater(w.Policy, []upload{w.upload})
	}
}

// drop deletes the parts of an upload, unless a version of its object has them.
func (d *device) drop(ctx context.Context, w *parts) error {
	container := w.Bucket + segments
	prefix := w.Key + "/" + w.ID + "/"
	names, err := d.list(ctx, w.Account, container, url.Values{"prefix": {prefix}})
	if err != nil || len(names) == 0 {
		return err
	}
	if isUsed, err := d.isUsed(ctx, &w.upload); err != nil || isUsed {
		return err
	}
	for _, found := range names {
		if _, err := strconv.ParseUint(strings.TrimPrefix(found.Name, prefix), 10, 31); err != nil {
			continue
		}
		if err := d.dropPart(ctx, &plan{account: w.Account, container: container, key: found.Name}, w.Policy); err != nil {
			return err
		}
	}
	return nil
}

// isUsed tells whether a version of the object has the parts of the upload: one that was not removed, or another one that a
// repeated request to complete the upload has made. An upload that was aborted may have been completed, too, and the object
// that began it have stayed.
func (d *device) isUsed(ctx context.Context, u *upload) (bool, error) {
	headers, err := d.container(ctx, u.Account, u.Bucket)
	if err != nil || headers == nil {
		return false, err
	}
	policy, err := strconv.Atoi(headers["x-backend-storage-policy-index"])
	if err != nil {
		return false, err
	}
	p := &plan{account: u.Account, container: u.Bucket, key: u.Key}
	at, err := d.placeOf(policy, p)
	if err != nil {
		return false, err
	}
	return p.hasUpload(ctx, at, u.ID)
}

// hasUpload tells whether a version was made of an upload. All replicas must answer: one that has such a version is right.
func (p *plan) hasUpload(ctx context.Context, at *place, id string) (bool, error) {
	answers, failed := everywhere(ctx, at.replicas, func(int) *request { return p.headOf(at, versionid.MadeOf+id) })
	for i, a := range answers {
		switch {
		case a == nil:
			return false, fmt.Errorf("lifecycle: %s is not known at %s: %w", p.path(), at.replicas[i], failed[i])
		case a.status == http.StatusOK:
			return true, nil
		case a.status != http.StatusNotFound: // damage, or a server of a former release
			return false, fmt.Errorf("lifecycle: %s is not known at %s: status %d", p.path(), at.replicas[i], a.status)
		}
	}
	return false, nil
}

// dropPart deletes one part.
func (d *device) dropPart(ctx context.Context, p *plan, policy int) error {
	if err := d.objects.Wait(ctx, 1); err != nil {
		return err
	}
	at, err := d.placeOf(policy, p)
	if err != nil {
		return err
	}
	x, err := d.prepare(p, at, at.replicas)
	if err != nil {
		return err
	}
	answers, failed := x.send(ctx, now(), nil, nil)
	count := 0
	for _, a := range answers {
		if a != nil && outcomeOf(a.status) == isDone {
			count++
		}
	}
	if count <= len(at.replicas)/2 {
		return fmt.Errorf("lifecycle: %s is deleted at %d of %d replicas: %w", p.path(), count, len(at.replicas), failed[0])
	}
	d.count(func(r *Report) { r.Parts++ })
	return nil
}

// now is the time as a timestamp.
func now() format.Timestamp { return format.Timestamp{Ticks: uint64(time.Now().UnixMicro()) / 10} }

// row is an object in a listing.
type row struct {
	Name string `json:"name"`
}

// list lists objects of a container.
func (l *Lifecycle) list(ctx context.Context, account, container string, query url.Values) (rows []row, err error) {
	replicas, err := l.containerReplicas(account, container)
	if err != nil {
		return nil, err
	}
	query.Set("format", "json")
	for {
		page, err := l.page(ctx, replicas, "/"+account+"/"+container, query.Encode())
		if err != nil || len(page) == 0 {
			return rows, err
		}
		rows = append(rows, page...)
		query.Set("marker", page[len(page)-1].Name)
	}
}

// page asks one replica after the other.
func (l *Lifecycle) page(ctx context.Context, replicas []*remote, path, query string) (page []row, err error) {
	for _, r := range replicas {
		var a *answer
		a, err = r.ask(ctx, &request{name: "container.get", path: path, query: query})
		switch {
		case err != nil:
		case a.status == http.StatusNoContent:
			return nil, nil
		case a.status != http.StatusOK:
			err = fmt.Errorf("lifecycle: listing of %s: status %d", path, a.status)
		default:
			err = json.Unmarshal(a.body, &page)
			return page, err
		}
	}
	return nil, err
}
