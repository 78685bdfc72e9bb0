package lifecycle

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/inspect"
	"martlet/object-server/server/versionid"
)

// Headers that are stored with objects; doc/formats has their meaning.
const (
	taggingHeader  = "X-Object-Transient-Sysmeta-S3api-Tagging"
	uploadHeader   = "X-Object-Sysmeta-S3api-Upload-Id"        // of an object that was an upload
	beginHeader    = "X-Object-Sysmeta-S3api-Has-Content-Type" // of the object that begins an upload
	sloSizeHeader  = "X-Object-Sysmeta-Slo-Size"
	restoredHeader = "X-Object-Sysmeta-Current-Version"
)

// current is what a name is when no version is named, and what all replicas must say that it is.
type current struct {
	isLive      bool
	isMarker    bool
	isVersioned bool // the name has versions
	id          format.VersionID
	since       format.Timestamp // when it became current
	tags        string           // of a live one
}

// plan is what is due for a name.
type plan struct {
	account, container, key string

	hash     format.Hash
	current  current
	expire   bool             // the current version
	mark     mark             // that does this
	marker   bool             // the current version is a delete marker, which goes
	versions []string         // ids of those that go
	null     format.Timestamp // of the null version if that goes; else zero
	excess   excess           // versions that go because newer ones are there
	begun    *upload          // the upload that is aborted
	uploads  []upload         // whose parts go if their versions are gone then

	partsPolicy int // of the container of these parts

	isLockable bool // the container may have locked versions
}

func (p *plan) isEmpty() bool {
	return !p.expire && !p.marker && len(p.versions) == 0 && p.null.IsZero() && p.begun == nil && p.excess.isEmpty()
}

// mark is the delete marker that takes the place of a current version.
type mark int

const (
	noMark   mark = iota
	nullMark      // where versioning is suspended: in place of the null version
	newMark       // a version of its own
)

// excess are the versions that go only because enough newer ones are kept in their place. This replica may still have versions
// that others have removed. So they go only if all replicas have those that are kept.
type excess struct {
	versions []string
	null     format.Timestamp
	newest   []string // the versions that are not current, from the newest on: all that a rule may count
	count    int      // of these, those that are kept
}

func (e *excess) isEmpty() bool { return len(e.versions) == 0 && e.null.IsZero() }

// kept are the versions that are kept in place of these.
func (e *excess) kept() []string { return e.newest[:e.count] }

// upload is a multipart upload, whose parts have names of their own.
type upload struct {
	Account string `json:"account"`
	Bucket  string `json:"bucket"`
	Key     string `json:"key"`
	ID      string `json:"id"`
}

func timeOf(t format.Timestamp) time.Time {
	return time.Unix(int64(t.Ticks/format.TicksPerSecond), int64(t.Ticks%format.TicksPerSecond)*int64(time.Second/format.TicksPerSecond))
}

// examiner finds what is due for the names of a partition.
type examiner struct {
	bucket *bucket
	now    time.Time
	day    time.Duration
	plan   plan
}

// factsOf are those of a version with its metadata.
func factsOf(key string, m *format.Metadata, written format.Timestamp) Facts {
	f := Facts{Key: key, Size: m.Size, Written: timeOf(written)}
	if size, err := strconv.ParseInt(m.System[sloSizeHeader], 10, 64); err == nil {
		f.Size = size
	}
	if text := m.User[taggingHeader]; text != "" {
		f.Tags = map[string]string{}
		values, _ := url.ParseQuery(text) // what cannot be read is no tag
		for name, all := range values {
			f.Tags[name] = all[len(all)-1]
		}
	}
	return f
}

func (e *examiner) decide(f *Facts) Action {
	action, _ := Decide(e.bucket.rules, f, e.now, e.day)
	return action
}

// examine looks at a name, and returns what is due; nil for nothing.
func (e *examiner) examine(n *inspect.Name, m *format.Metadata) (*plan, error) {
	p := &e.plan
	p.hash = n.Head.Hash()
	var err error
	switch {
	case e.bucket.isPartial:
		e.upload(n, m)
	case n.Head.Versioned():
		err = e.versions(n)
		p.current.isVersioned = true
	case n.Head.Live():
		e.alone(m)
	}
	if err != nil || p.isEmpty() {
		return nil, err
	}
	return p, nil
}

// upload looks at the container of the parts of uploads.
func (e *examiner) upload(n *inspect.Name, m *format.Metadata) {
	p := &e.plan
	at := strings.LastIndexByte(p.key, '/')
	if at <= 0 || n.Head.Versioned() || !n.Head.Live() || m.System[beginHeader] == "" {
		return
	}
	f := Facts{Key: p.key[:at], State: Upload, Written: timeOf(m.Timestamp)}
	if e.decide(&f) != Abort {
		return
	}
	p.current = current{isLive: true, since: m.Timestamp, tags: m.User[taggingHeader]}
	p.begun = &upload{p.account, strings.TrimSuffix(p.container, segments), p.key[:at], p.key[at+1:]}
}

// alone looks at an object without versions.
func (e *examiner) alone(m *format.Metadata) {
	p := &e.plan
	f := factsOf(p.key, m, m.Timestamp)
	f.IsOnly = true
	if e.isExpired(m) || e.decide(&f) != Expire {
		return
	}
	p.current = current{isLive: true, since: m.Timestamp, tags: m.User[taggingHeader]}
	p.expire, p.mark = true, e.bucket.mark
	if p.mark != newMark {
		e.dropParts(m)
	}
}

// isExpired tells whether the object expirer removes an object.
func (e *examiner) isExpired(m *format.Metadata) bool {
	return m.DeleteAt != 0 && m.DeleteAt <= e.now.Unix()
}

// dropParts notes the upload that an object, or a version of it, was made of.
func (e *examiner) dropParts(m *format.Metadata) {
	if id := m.System[uploadHeader]; id != "" && e.bucket.hasParts {
		e.plan.uploads = append(e.plan.uploads, upload{e.plan.account, e.plan.container, e.plan.key, id})
	}
}

// chainWalk is a walk over the versions of a name.
type chainWalk struct {
	*examiner
	name      *inspect.Name
	previous  format.Timestamp                      // when the next entry became noncurrent: the time of the entry before
	ended     map[format.VersionID]format.Timestamp // when versions that were made current again became noncurrent
	count     int                                   // of versions
	newer     int                                   // of them, those that are not current
	target    format.VersionID                      // that was made current again
	isPointed bool                                  // one was
	isHidden  bool                                  // none is current
	isOver    bool                                  // none is, since a DELETE that left no marker for clients
	found     *format.Version                       // the current one
}

// versions looks at the versions of a name, newest first.
func (e *examiner) versions(n *inspect.Name) error {
	w := &chainWalk{examiner: e, name: n}
	if err := n.EachVersion(w.visit); err != nil {
		return err
	}
	if w.found == nil || w.isHidden {
		return nil
	}
	return w.decideCurrent()
}

// visit looks at one entry of the chain.
func (w *chainWalk) visit(v *format.Version) (err error) {
	isFirst := w.previous.IsZero()
	if !isFirst && isHidden(v.ID) { // it may be older than the time at which it hid others
		return nil
	}
	defer func() { w.previous = v.Timestamp }()
	switch {
	case v.Type == format.TypeVersionDirectory: // its data were lost, and a peer has them
		return format.ErrQuarantined
	case !v.ID.IsNull() && !versionid.IsClient(v.ID):
		if isFirst {
			return w.visitOwn(v)
		}
		return w.visitReplaced(v)
	}
	if isHiding, err := w.isHiding(v); isHiding || err != nil {
		w.isOver = w.isOver || isFirst
		return err
	}
	w.count++
	isCurrent := w.isPointed && v.ID == w.target || !w.isPointed && !w.isOver && w.found == nil
	if isCurrent && w.found == nil {
		found := *v
		w.found = &found
		if !w.isPointed {
			w.plan.current = current{isLive: v.Type != format.TypeDeleteMarker, isMarker: v.Type == format.TypeDeleteMarker, id: v.ID, since: v.Timestamp}
		}
		return nil
	}
	err = w.decideOld(v)
	w.newer++
	return err
}

// isHiding tells whether an entry is a null delete marker that clients do not see.
func (w *chainWalk) isHiding(v *format.Version) (bool, error) {
	if v.Type != format.TypeDeleteMarker || !v.ID.IsNull() {
		return false, nil
	}
	m, err := w.name.Version(v)
	return err == nil && !m.MarksNull(), err
}

// isHidden tells whether an entry of the engine hides what is older.
func isHidden(id format.VersionID) bool {
	return !id.IsNull() && !versionid.IsClient(id) && !versionid.IsRestored(id)
}

// visitReplaced looks at an entry that made a version current again until something newer came.
func (w *chainWalk) visitReplaced(v *format.Version) error {
	target, err := w.targetOf(v)
	if _, ok := w.ended[target]; err == nil && !ok {
		if w.ended == nil {
			w.ended = map[format.VersionID]format.Timestamp{}
		}
		w.ended[target] = w.previous
	}
	return err
}

// targetOf is the version that an entry makes current.
func (w *chainWalk) targetOf(v *format.Version) (target format.VersionID, err error) {
	m, err := w.name.Version(v)
	if err != nil {
		return target, err
	}
	return versionid.Parse(m.System[restoredHeader])
}

// visitOwn looks at an entry of the engine that tells which version is current.
func (w *chainWalk) visitOwn(v *format.Version) error {
	if w.isPointed = versionid.IsRestored(v.ID); !w.isPointed {
		w.isHidden = true
		return nil
	}
	var err error
	if w.target, err = w.targetOf(v); err != nil {
		return err
	}
	w.plan.current = current{isLive: true, id: w.target, since: v.Timestamp}
	return nil
}

// decideOld looks at a version that is not current.
func (w *chainWalk) decideOld(v *format.Version) error {
	since := w.previous
	if ended, ok := w.ended[v.ID]; ok {
		since = ended
	}
	f := Facts{Key: w.plan.key, Size: int64(v.Size), Written: timeOf(v.Timestamp), State: Noncurrent, Since: timeOf(since)}
	var m *format.Metadata
	switch {
	case v.Type == format.TypeDeleteMarker:
		f.State = NoncurrentMarker
	case w.bucket.readsHeads():
		var err error
		if m, err = w.name.Version(v); err != nil {
			return err
		}
		of := factsOf(f.Key, m, v.Timestamp)
		f.Size, f.Tags = of.Size, of.Tags
	}
	id := versionid.Text(v.ID)
	if v.ID.IsNull() {
		id = versionid.Text(versionid.OfNull(v.Timestamp))
	}
	x := &w.plan.excess
	if int64(w.newer) < w.bucket.newerMax() {
		x.newest = append(x.newest, id)
	}
	versions, null := &w.plan.versions, &w.plan.null
	if w.decide(&f) != Remove { // without regard to newer ones
		f.Newer = w.newer
		action, rule := Decide(w.bucket.rules, &f, w.now, w.day)
		if action != Remove {
			return nil
		}
		versions, null = &x.versions, &x.null
		x.count = max(x.count, int(*rule.NewerVersions))
	}
	if v.ID.IsNull() {
		*null = v.Timestamp
	} else {
		*versions = append(*versions, id)
	}
	if m != nil {
		w.dropParts(m)
	}
	return nil
}

// readsHeads tells whether the metadata of old versions count: their tags, their parts, and the sizes of large objects.
func (b *bucket) readsHeads() bool {
	if b.hasParts {
		return true
	}
	for i := range b.rules {
		if r := &b.rules[i]; len(r.Tags) > 0 || r.LargerThan != nil || r.SmallerThan != nil {
			return true
		}
	}
	return false
}

// newerMax is how many versions that are not current a rule keeps at most.
func (b *bucket) newerMax() (most int64) {
	for i := range b.rules {
		if r := &b.rules[i]; r.NewerVersions != nil {
			most = max(most, *r.NewerVersions)
		}
	}
	return most
}

// decideCurrent looks at the current version, once all are counted.
func (w *chainWalk) decideCurrent() error {
	p := &w.plan
	if p.current.isMarker {
		f := Facts{Key: p.key, Written: timeOf(p.current.since), State: Marker, IsOnly: w.count == 1}
		p.marker = w.decide(&f) == Remove
		return nil
	}
	m, err := w.name.Version(w.found)
	if err != nil {
		return err
	}
	p.current.tags = m.User[taggingHeader]
	f := factsOf(p.key, m, p.current.since)
	if w.isExpired(m) || w.decide(&f) != Expire {
		return nil
	}
	p.expire, p.mark = true, w.bucket.mark
	if p.mark != newMark && w.found.ID.IsNull() {
		w.dropParts(m)
	}
	return nil
}
