package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"martlet/object-server/ring"
	"martlet/object-server/server/option"
)

// segments is the end of the name of the container for the parts of a bucket's uploads.
const segments = "+segments"

// bucket is what a pass needs to know of a container. One without rules costs nothing more.
type bucket struct {
	rules      []Rule
	mark       mark // what a DELETE leaves
	isPartial  bool // it has the parts of uploads
	hasParts   bool // there is a container with parts of it
	isLockable bool // versions may be locked
	policy     int
	asked      time.Time // when this was so
}

// bucketsMax is how many containers a pass keeps in mind.
const bucketsMax = 100_000

// knownFor is how long that counts. A pass may take days: rules that were taken back must not be carried out until its end.
const knownFor = time.Minute

// bucketOf finds what is known of the container of a name.
func (d *device) bucketOf(ctx context.Context, account, container string) (*bucket, error) {
	key := account + "/" + container
	if b, ok := d.buckets[key]; ok && time.Since(b.asked) < knownFor {
		return b, nil
	}
	asked := time.Now()
	b, err := d.readBucket(ctx, account, container)
	if err != nil {
		d.config.Logger.Warn("the lifecycle rules of a container are not known, it is left out", "device", d.name,
			"account", account, "container", container, "error", err)
		b = &bucket{}
	}
	if len(d.buckets) >= bucketsMax {
		clear(d.buckets)
	}
	b.asked = asked
	d.buckets[key] = b
	return b, err
}

func (d *device) readBucket(ctx context.Context, account, container string) (*bucket, error) {
	if strings.HasPrefix(account, ".") {
		return &bucket{}, nil
	}
	of, isPartial := strings.CutSuffix(container, segments)
	headers, err := d.container(ctx, account, of)
	if err != nil || headers == nil {
		return &bucket{}, err
	}
	document, err := setting(headers, "Lifecycle")
	if err != nil || document == nil {
		return &bucket{}, err
	}
	b := &bucket{
		isPartial: isPartial, mark: markOf(headers["x-container-sysmeta-versions-enabled"]),
		isLockable: headers["x-container-sysmeta-object-lock"] != "",
	}
	if b.rules, err = ParseRules(document); err != nil {
		return nil, err
	}
	b.rules = slices.DeleteFunc(b.rules, func(r Rule) bool { return isPartial && r.AbortDays == nil })
	if len(b.rules) == 0 {
		return &bucket{}, nil
	}
	parts, err := d.container(ctx, account, of+segments)
	if err != nil {
		return nil, err
	}
	if b.hasParts = parts != nil; b.hasParts {
		b.policy, err = strconv.Atoi(parts["x-backend-storage-policy-index"])
	}
	return b, err
}

// markOf is what a DELETE leaves, by the header that says whether versioning is enabled.
func markOf(enabled string) mark {
	switch {
	case enabled == "":
		return noMark
	case option.IsTrue(enabled):
		return newMark
	}
	return nullMark
}

// told are the headers of a container that replicas must agree on.
var told = []string{
	"x-container-sysmeta-s3api-setting-lifecycle", "x-container-sysmeta-s3api-setting-lifecycle-1",
	"x-container-sysmeta-s3api-setting-lifecycle-2", "x-container-sysmeta-s3api-setting-lifecycle-3",
	"x-container-sysmeta-versions-enabled", "x-backend-storage-policy-index",
}

var errDisagree = errors.New("the replicas of the container have not the same settings")

// container reads the headers of a container; nil if there is none. More than half of its replicas must answer, and all of
// those the same: rules that were changed while a replica was away must not be carried out.
func (l *Lifecycle) container(ctx context.Context, account, container string) (map[string]string, error) {
	replicas, err := l.containerReplicas(account, container)
	if err != nil {
		return nil, err
	}
	answers, failed := everywhere(ctx, replicas, func(int) *request {
		return &request{name: "container.head", path: "/" + account + "/" + container}
	})
	var first *answer
	count := 0
	for _, a := range answers {
		if a == nil || !a.isSuccess() && a.status != http.StatusNotFound {
			continue
		}
		count++
		if first == nil {
			first = a
		}
		isSame := a.status == first.status
		for _, name := range told {
			isSame = isSame && (a.headers[name] == first.headers[name] || a.status == http.StatusNotFound)
		}
		if !isSame {
			return nil, errDisagree
		}
	}
	if count <= len(replicas)/2 {
		return nil, errors.Join(append(failed, fmt.Errorf("lifecycle: %d of %d replicas of the container answer", count, len(replicas)))...)
	}
	if first.status == http.StatusNotFound {
		return nil, nil
	}
	return first.headers, nil
}

func (l *Lifecycle) containerReplicas(account, container string) ([]*remote, error) {
	current, err := l.config.Rings.Named("container")
	if current == nil { // else an error says that it is the ring from before
		return nil, err
	}
	return l.replicas(current, l.config.Hasher.Container(account, container)), nil
}

// replicas are the primaries of a name.
func (l *Lifecycle) replicas(current *ring.Ring, hash [16]byte) (all []*remote) {
	partition := current.Partition(hash)
	for _, d := range current.PartitionDevices(partition) {
		all = append(all, l.remote(d, partition))
	}
	return all
}
