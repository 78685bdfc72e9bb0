package device

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"

	"martlet/object-server/bundle/format"
	"martlet/object-server/proof"
	"martlet/object-server/vfs"
)

// request is what a client asks of one object.
type request struct {
	name, kind string // the kinds of a history, or "get"
	ticks      uint64
}

// response is what it is told.
type response struct {
	shows   version // get: what is there; put and delete: what was there before
	refused uint64  // the time of what is newer
	gone    bool    // post: there is no object
}

// register is one object: the newest timestamp wins, in any order of arrival.
var register = porcupine.Model{
	Partition: proof.ByName(func(asked any) string { return asked.(request).name }),
	Init:      func() any { return version{} },
	Step: func(state, input, output any) (bool, any) {
		told, next := input.(request).apply(state.(version))
		return told == output.(response), next
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// apply tells what a request does to an object, and what the client hears.
func (r request) apply(v version) (response, version) {
	isPut := r.kind == "put"
	switch {
	case r.kind == "get":
		return response{shows: v}, v
	case r.kind == "post" && (v.deleted || v.ticks == 0):
		return response{gone: true}, v
	case r.kind == "post" && r.ticks <= v.meta:
		return response{refused: v.meta}, v
	case r.kind == "post":
		return response{}, version{ticks: v.ticks, meta: r.ticks}
	case r.ticks <= v.ticks:
		return response{refused: v.ticks}, v
	case isPut && !v.deleted:
		return response{shows: v}, version{ticks: r.ticks, meta: max(r.ticks, v.meta)}
	case isPut:
		return response{shows: v}, version{ticks: r.ticks, meta: r.ticks}
	}
	return response{shows: v}, version{ticks: r.ticks, deleted: true}
}

// send performs a request on a device.
func (r request) send(d *Device) (told response, err error) {
	loc := locate(r.name, modelBits)
	var before State
	switch r.kind {
	case "get":
		told.shows, err = observe(d, r.name)
		return told, err
	case "put":
		before, err = put(d, loc, r.name, r.ticks, modelBody(r.name, r.ticks))
	case "delete":
		before, err = d.Delete(loc, at(r.ticks), r.name)
	case "post":
		err = d.Post(loc, func(m *format.Metadata) error {
			if m.MetaTimestamp.Compare(at(r.ticks)) >= 0 {
				return &OlderError{Existing: m.MetaTimestamp}
			}
			m.MetaTimestamp, m.User = at(r.ticks), format.Headers{"X-Object-Meta-Ticks": fmt.Sprint(r.ticks)}
			return nil
		})
	}
	var older *OlderError
	var gone *NotFoundError
	switch {
	case errors.As(err, &older):
		return response{refused: older.Existing.Ticks}, nil
	case errors.As(err, &gone):
		return response{gone: true}, nil
	case before.Existed:
		told.shows = version{ticks: before.Metadata.Timestamp.Ticks, meta: before.Metadata.MetaTimestamp.Ticks}
	case !before.Tombstone.IsZero():
		told.shows = version{ticks: before.Tombstone.Ticks, deleted: true}
	}
	return told, err
}

// clients send requests to a few objects at once.
func clients(d *Device, seed uint64) ([]porcupine.Operation, error) {
	var clock atomic.Uint64
	clock.Store(smallTicks)
	draw := func(rng *rand.Rand) request {
		return request{
			name: modelNames[rng.IntN(3)], kind: []string{"get", "get", "put", "post", "delete"}[rng.IntN(5)],
			ticks: clock.Add(1),
		}
	}
	return proof.Clients(seed, 8, 40, draw, func(_ *rand.Rand, r request) (response, error) { return r.send(d) })
}

// What concurrent clients are told about an object can be put in an order in
// which each request happened at one moment between its start and its end.
// `make linear` goes on for longer.
func TestLinearizable(t *testing.T) {
	for _, method := range SyncMethods {
		t.Run(string(method), func(t *testing.T) {
			t.Parallel()
			proof.Linearizable(t, register, 8, func(seed uint64) ([]porcupine.Operation, error) {
				o := Options{
					SpillBytes: smallSpill, SegmentBytes: 16 << 10, SyncMethod: method, JournalBytes: 64 << 10,
					IndexOnDisk: seed%2 == 1,
				}
				d := open(t, vfs.NewMem("/d"), "/d", o)
				all, err := clients(d, seed)
				return all, errors.Join(err, d.Close())
			})
		})
	}
}

// The check finds a read of what has been replaced, and a write that an older
// one undoes.
func TestLinearizableFindsFaults(t *testing.T) {
	put := func(call, ticks uint64, before version) porcupine.Operation {
		return porcupine.Operation{Input: request{"x", "put", ticks}, Call: int64(call), Output: response{shows: before}, Return: int64(call + 5)}
	}
	get := func(call, ticks uint64) porcupine.Operation {
		return porcupine.Operation{Input: request{"x", "get", 0}, Call: int64(call), Output: response{shows: version{ticks: ticks, meta: ticks}}, Return: int64(call + 5)}
	}
	one := version{ticks: 1, meta: 1}
	for what, c := range map[string]struct {
		all []porcupine.Operation
		ok  bool
	}{
		"in turn":           {[]porcupine.Operation{put(0, 1, version{}), put(10, 2, one), get(20, 2)}, true},
		"while it is put":   {[]porcupine.Operation{put(0, 1, version{}), put(10, 2, one), get(12, 1)}, true},
		"stale":             {[]porcupine.Operation{put(0, 1, version{}), put(10, 2, one), get(20, 1)}, false},
		"back and forth":    {[]porcupine.Operation{put(0, 1, version{}), put(10, 2, one), get(10, 2), get(16, 1)}, false},
		"older one is late": {[]porcupine.Operation{put(0, 2, version{}), put(10, 1, version{ticks: 2, meta: 2})}, false},
	} {
		if got := porcupine.CheckOperations(register, c.all); got != c.ok {
			t.Errorf("%s: linearizable %v", what, got)
		}
	}
}
