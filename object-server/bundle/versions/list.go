package versions

import (
	"container/heap"

	"martlet/object-server/bundle/format"
)

// lister yields the live versions of a chain, newest first, and reads no more of
// the chain than that takes.
//
// It meets the entries of a chain from the newest LSN down, and a removal before
// what it removes. What has been met and is newer than all that is unread is
// next in the list.
type lister struct {
	chain   *Chain
	unread  uint64           // LSN of the next record to read; 0: all is read
	bound   format.Timestamp // nothing unread is later
	met     versionHeap
	removed map[format.VersionID]format.Timestamp
	null    bool // the last write of the null version has been met
	last    format.Version
}

// list starts a listing.
func (c *Chain) list() *lister {
	l := &lister{chain: c}
	if c.head != nil {
		l.take(c.head)
	}
	return l
}

// take enters what a record says.
func (l *lister) take(n *Link) {
	own := n.version()
	l.meet(&own)
	for i := len(n.Block.Listed) - 1; i >= 0; i-- {
		l.meet(&n.Block.Listed[i])
	}
	l.unread, l.bound = n.Block.Next, n.Block.Bound
}

func (l *lister) meet(v *format.Version) {
	switch {
	case v.Type == format.TypeTombstone:
		l.remove(v.ID, v.Timestamp)
	case !v.Type.IsVersion():
	case v.ID.IsNull():
		if !l.null {
			l.null = true
			l.met.push(v)
		}
	case len(l.removed) > 0 && l.removed[v.ID].Compare(v.Timestamp) >= 0:
	default:
		l.met.push(v)
		if t := v.Timestamp; t.Offset > 0 { // the same version may be here with a smaller one
			t.Offset--
			l.remove(v.ID, t)
		}
	}
}

// remove hides a version that has not been met yet.
func (l *lister) remove(id format.VersionID, t format.Timestamp) {
	if id.IsNull() {
		l.null = true
		return
	}
	if l.removed == nil {
		l.removed = make(map[format.VersionID]format.Timestamp)
	}
	l.removed[id] = later(l.removed[id], t)
}

// next returns the next older version; ok is false at the end. ErrQuarantined
// where damage hides the rest.
func (l *lister) next() (v format.Version, ok bool, err error) {
	for {
		for l.unread != 0 && (len(l.met) == 0 || l.met[0].Timestamp.Compare(l.bound) <= 0) {
			n, err := l.chain.reader.ReadLink(l.unread)
			if err != nil {
				return format.Version{}, false, err
			}
			l.take(&n)
		}
		if len(l.met) == 0 {
			return format.Version{}, false, nil
		}
		v = l.met.pop()
		// Of a version with several records, one for each POST, the last comes first.
		if l.last.LSN == 0 || v.Compare(l.last.Timestamp, l.last.ID) != 0 {
			l.last = v
			return v, true, nil
		}
	}
}

// Listed is a version in a listing.
type Listed struct {
	format.Version
	Successor format.Timestamp // of the next newer version; zero for the newest
}

// Marker is a place in a listing: behind the version of that time and id. The
// zero Marker is its start.
type Marker struct {
	Timestamp format.Timestamp
	ID        format.VersionID
}

// Page returns at most limit versions behind a marker, newest first.
func (c *Chain) Page(after Marker, limit int) (page []Listed, err error) {
	var successor format.Timestamp
	for l := c.list(); len(page) < limit; {
		v, ok, err := l.next()
		if err != nil || !ok {
			return page, err
		}
		if after.Timestamp.IsZero() || v.Compare(after.Timestamp, after.ID) < 0 {
			page = append(page, Listed{v, successor})
		}
		successor = v.Timestamp
	}
	return page, nil
}

// versionHeap has the newest version on top; of equal ones that of the later LSN.
type versionHeap []format.Version

func (h *versionHeap) Len() int { return len(*h) }
func (h *versionHeap) Less(i, j int) bool {
	v, u := &(*h)[i], &(*h)[j]
	if c := v.Compare(u.Timestamp, u.ID); c != 0 {
		return c > 0
	}
	return v.LSN > u.LSN
}
func (h *versionHeap) Swap(i, j int) { (*h)[i], (*h)[j] = (*h)[j], (*h)[i] }
func (h *versionHeap) Push(any)      { panic("bundle: push is used instead") }
func (h *versionHeap) Pop() any      { panic("bundle: pop is used instead") }

func (h *versionHeap) push(v *format.Version) {
	*h = append(*h, *v)
	heap.Fix(h, len(*h)-1)
}

func (h *versionHeap) pop() format.Version {
	last := len(*h) - 1
	h.Swap(0, last)
	v := (*h)[last]
	*h = (*h)[:last]
	if last > 1 {
		heap.Fix(h, 0)
	}
	return v
}
