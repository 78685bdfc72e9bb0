package device

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/sethash"
	"martlet/object-server/vfs"
)

// send imports what a device has since a position into another, in an order that
// shuffle chooses. It returns how far the other has everything.
func send(from, to *Device, partition uint32, since bundle.Position, shuffle func([]RawRecord) []RawRecord) (bundle.Position, error) {
	var all []RawRecord
	done, err := from.Replica(0, partition).Export(since, nil, func(r RawRecord) error {
		kept := RawRecord{Bytes: bytes.Clone(r.Bytes)}
		if r.Large != nil {
			kept.Large = r.Large
			return importAll(to, partition, []RawRecord{kept}) // the file is closed then
		}
		all = append(all, kept)
		return nil
	})
	if err == nil && done.Skipped > 0 {
		err = fmt.Errorf("%d records were skipped", done.Skipped)
	}
	if err == nil {
		err = importAll(to, partition, shuffle(all))
	}
	return done.Position, err
}

func importAll(to *Device, partition uint32, all []RawRecord) error {
	results, err := to.Replica(0, partition).Import(all)
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	return err
}

// replicas are devices that hold the same partitions.
type replicas struct {
	machines []*machine
	sent     map[[3]int]bundle.Position // from, to, partition
}

func (s *replicas) exchange(rng *rand.Rand, from, to int, since bool) error {
	shuffle := func(all []RawRecord) []RawRecord {
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		return all
	}
	for partition := range 1 << modelBits {
		key := [3]int{from, to, partition}
		var position bundle.Position
		if since {
			position = s.sent[key]
		}
		at, err := send(s.machines[from].device, s.machines[to].device, uint32(partition), position, shuffle)
		if err != nil {
			return fmt.Errorf("%d to %d: %w", from, to, err)
		}
		s.sent[key] = at
	}
	return nil
}

// settle exchanges everything until nothing changes any more.
func (s *replicas) settle(rng *rand.Rand) error {
	for range 3 {
		for from := range s.machines {
			for to := range s.machines {
				if from == to {
					continue
				}
				if err := s.exchange(rng, from, to, rng.IntN(2) == 0); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// shows is all that clients see of a name.
func shows(d *Device, name string) (string, error) {
	listed, err := observeVersions(d, name)
	if err != nil {
		return "", err
	}
	data, m, err := get(d, locate(name, modelBits))
	var gone *NotFoundError
	if errors.As(err, &gone) {
		return fmt.Sprintf("%s not found, marker %v %v", listed, gone.Marker, gone.VersionID), nil
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %d bytes, %v %s, %v %v %v, %v", listed, len(data), m.VersionID, m.ETag, m.Timestamp, m.MetaTimestamp, m.TypeTimestamp, m.User), nil
}

// Two or three devices with writes of their own, which exchange their records now and
// then and in any order, end with equal digests and show the same of every name.
func TestReplicasAgree(t *testing.T) {
	t.Parallel()
	seeds := uint64(100)
	if raceDetector {
		seeds = 30
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 0))
		s := &replicas{sent: map[[3]int]bundle.Position{}}
		for range 2 + rng.IntN(2) {
			s.machines = append(s.machines, &machine{fs: vfs.NewMem("/d"), model: newModel()})
		}
		err := s.run(rng)
		if err == nil {
			err = s.check()
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// run does random steps, and exchanges all in the end.
func (s *replicas) run(rng *rand.Rand) error {
	for _, m := range s.machines {
		if err := m.startReplica(rng); err != nil {
			return err
		}
	}
	for range 10 + rng.IntN(100) {
		m := s.machines[rng.IntN(len(s.machines))]
		var err error
		switch rng.IntN(20) {
		case 0:
			err = m.device.Compact()
		case 1:
			if err = m.device.Close(); err == nil {
				err = m.startReplica(rng)
			}
		case 2:
			if from, to := rng.IntN(len(s.machines)), rng.IntN(len(s.machines)); from != to {
				err = s.exchange(rng, from, to, true)
			}
		default:
			err = writeAnything(rng, m.device)
		}
		if err != nil {
			return err
		}
	}
	return s.settle(rng)
}

func (s *machine) startReplica(rng *rand.Rand) (err error) {
	o := crashOptions(crashMethods[rng.IntN(len(crashMethods))])
	o.IndexOnDisk, o.KeptID, o.HiddenID = rng.IntN(2) == 0, keptID, hiddenID
	s.device, err = Open(s.fs, "/d", o)
	return err
}

// writeAnything does one write, which may be refused.
func writeAnything(rng *rand.Rand, d *Device) error {
	name := modelNames[rng.IntN(len(modelNames))]
	c := versionChange{kind: replicaKinds[rng.IntN(len(replicaKinds))], ticks: 1 + rng.Uint64N(30)}
	var err error
	switch c.kind {
	case "null", "delete", "meta":
		err = newModel().do(d, change{kind: map[string]string{"null": "put", "delete": "delete", "meta": "post"}[c.kind], name: name, ticks: c.ticks})
	case "put", "marker":
		c.id, c.ticks = c.ticks, c.ticks*7+1 // an id is of one time, and of one kind
		if c.id%5 == 0 {
			c.kind = "marker"
		} else {
			c.kind = "put"
		}
		err = doVersion(d, name, c)
	default:
		c.id, c.ticks = c.ticks, 1+rng.Uint64N(300)
		err = doVersion(d, name, c)
	}
	var older *OlderError
	var missing *NotFoundError
	if errors.As(err, &older) || errors.As(err, &missing) {
		return nil
	}
	return err
}

var replicaKinds = []string{"null", "null", "null", "delete", "meta", "meta", "put", "put", "post", "remove", "hide", "mark", "keep"}

// check compares the devices, and closes them.
func (s *replicas) check() error {
	for _, name := range modelNames {
		first, err := shows(s.machines[0].device, name)
		for i, m := range s.machines[1:] {
			other, err2 := shows(m.device, name)
			if err != nil || err2 != nil || first != other {
				return fmt.Errorf("%s: %v, %v\n%s\ndevice %d\n%s", name, err, err2, first, i+1, other)
			}
		}
	}
	for partition := range uint32(1 << modelBits) {
		first, _, err := s.machines[0].device.Replica(0, partition).Digest(0, 0, format.Timestamp{})
		for i, m := range s.machines[1:] {
			other, _, err2 := m.device.Replica(0, partition).Digest(0, 0, format.Timestamp{})
			if err != nil || err2 != nil || first != other {
				return fmt.Errorf("partition %d: %v, device %d %v, %v, %v", partition, first, i+1, other, err, err2)
			}
		}
	}
	for _, m := range s.machines {
		if err := errors.Join(checkAgreement(m.device, modelNames, modelBits), m.device.Close()); err != nil {
			return err
		}
	}
	return nil
}

// What is imported has the bytes, checksums and signature that it has at the peer.
func TestImportKeepsBytes(t *testing.T) {
	from, to := newMemory(t), newMemory(t)
	const name = "/a/c/heron"
	loc := locate(name, modelBits)
	must[State](t)(put(from.device, loc, name, 10, body(10, 5000)))
	var raw []byte
	before := to.device.Stats()
	if _, err := from.device.Replica(0, loc.Partition).Export(bundle.Position{}, nil, func(r RawRecord) error {
		raw = bytes.Clone(r.Bytes)
		return importAll(to.device, loc.Partition, []RawRecord{r})
	}); err != nil {
		t.Fatal(err)
	}
	if after := to.device.Stats(); after.Batches != before.Batches+1 {
		t.Errorf("%d batches", after.Batches-before.Batches)
	}
	if _, err := to.device.Replica(0, loc.Partition).Export(bundle.Position{}, nil, func(r RawRecord) error {
		h, got := must[format.Header](t)(format.ParseHeader(raw)), must[format.Header](t)(format.ParseHeader(r.Bytes))
		if h.Signature != got.Signature || h.DataCRC != got.DataCRC || h.MetadataCRC != got.MetadataCRC ||
			!bytes.Equal(raw[format.HeaderSize:], r.Bytes[format.HeaderSize:]) {
			t.Errorf("%+v became %+v", h, got)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	wantBody(t, to.device, loc, body(10, 5000))
}

// Many records of different names share a flush, and what is there already is not
// written again.
func TestImportSharesAFlush(t *testing.T) {
	from, to := newMemory(t), &memory{t: t, fs: vfs.NewMem("/d")}
	to.device = open(t, to.fs, "/d", Options{Logger: quiet}) // which writes no checkpoint: it would be another batch
	t.Cleanup(func() { _ = to.device.Close() })
	for i := range 50 {
		name := fmt.Sprintf("/a/c/%d", i)
		must[State](t)(put(from.device, locate(name, 0), name, 10, body(10, 300)))
	}
	keep := func(all []RawRecord) []RawRecord { return all }
	before := to.device.Stats()
	at, err := send(from.device, to.device, 0, bundle.Position{}, keep)
	after := to.device.Stats()
	if err != nil || after.Batches != before.Batches+1 {
		t.Fatalf("%v, %d batches", err, after.Batches-before.Batches)
	}
	position := must[bundle.Position](t)(from.device.Replica(0, 0).Position())
	if at.Bundle != position.Bundle || at.LSN < 50 || at.LSN > position.LSN { // a checkpoint may have come
		t.Fatalf("exported up to %+v, the bundle is at %+v", at, position)
	}
	if _, err := from.device.Replica(0, 0).Export(bundle.Position{}, nil, func(r RawRecord) error {
		results, err := to.device.Replica(0, 0).Import([]RawRecord{r})
		if err != nil || results[0].Stored {
			t.Fatalf("what is there was written again: %+v, %v", results, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := send(from.device, to.device, 0, at, func(all []RawRecord) []RawRecord {
		if len(all) > 0 {
			t.Errorf("%d records since %+v", len(all), at)
		}
		return all
	}); err != nil {
		t.Fatal(err)
	}
	other := bundle.Position{LSN: at.LSN}
	if _, err := send(from.device, to.device, 0, other, func(all []RawRecord) []RawRecord {
		if len(all) != 50 {
			t.Errorf("%d records since a position of another bundle", len(all))
		}
		return all
	}); err != nil {
		t.Fatal(err)
	}
}

// Export takes only what is wanted.
func TestExportWanted(t *testing.T) {
	from := newMemory(t)
	names := []string{"/a/c/heron", "/a/c/crane", "/a/c/auk"}
	for _, name := range names {
		must[State](t)(put(from.device, locate(name, 0), name, 10, body(10, 300)))
	}
	elements, _, err := from.device.Replica(0, 0).Elements(0, 0)
	if err != nil || len(elements) != 3 {
		t.Fatal(elements, err)
	}
	wanted := elements[1]
	var got []sethash.Element
	if _, err := from.device.Replica(0, 0).Export(bundle.Position{}, func(e *format.Entry) bool { return e.Hash == wanted.Hash }, func(r RawRecord) error {
		h := must[format.Header](t)(format.ParseHeader(r.Bytes))
		got = append(got, sethash.Element{Hash: h.Hash, Signature: h.Signature})
		return nil
	}); err != nil || !slices.Equal(got, []sethash.Element{wanted}) {
		t.Fatal(got, err)
	}
}

// Bytes that are not a whole record with good checksums are refused, and the others
// of the batch are stored.
func TestImportOfDamagedRecords(t *testing.T) {
	from, to := newMemory(t), newMemory(t)
	for i := range 3 {
		name := fmt.Sprintf("/a/c/%d", i)
		must[State](t)(put(from.device, locate(name, 0), name, 10, body(10, 300)))
	}
	var all []RawRecord
	if _, err := from.device.Replica(0, 0).Export(bundle.Position{}, nil, func(r RawRecord) error {
		all = append(all, RawRecord{Bytes: bytes.Clone(r.Bytes)})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	good := all[2].Bytes
	for offset := 0; offset < len(good)-format.UnitSize; offset += 11 {
		bad := bytes.Clone(all[1].Bytes)
		bad[offset] ^= 4
		results, err := to.device.Replica(0, 0).Import([]RawRecord{{Bytes: bad}, {Bytes: bad[:offset]}})
		if err != nil || !errors.Is(results[0].Err, ErrInvalid) || !errors.Is(results[1].Err, ErrInvalid) {
			t.Fatalf("offset %d: %+v, %v", offset, results, err)
		}
	}
	all[1].Bytes[200] ^= 1
	results, err := to.device.Replica(0, 0).Import(all)
	if err != nil || !results[0].Stored || results[1].Stored || results[1].Err == nil || !results[2].Stored {
		t.Fatalf("%+v, %v", results, err)
	}
}

// A POST that a replica has missed comes with the record that it made, whether the
// replica has the same data, or later ones that it outlives.
func TestImportOfAMissedPost(t *testing.T) {
	const name = "/a/c/heron"
	loc := locate(name, modelBits)
	keep := func(all []RawRecord) []RawRecord { return all }
	for what, c := range map[string]struct{ data, post, stored, wantMeta uint64 }{
		"same data":                {10, 20, 10, 20},
		"later data":               {10, 20, 15, 20},
		"large data":               {12, 20, 12, 20}, // as modelSize says
		"large and later data":     {10, 20, 12, 20},
		"data that are later":      {10, 20, 30, 30},
		"the POST of an old write": {10, 20, 20, 20},
	} {
		from, to := newMemory(t), newMemory(t)
		must[State](t)(put(from.device, loc, name, c.data, modelBody(name, c.data)))
		must[State](t)(put(to.device, loc, name, c.stored, modelBody(name, c.stored)))
		if err := doVersion(from.device, name, versionChange{kind: "post", ticks: c.post}); err != nil {
			t.Fatal(err)
		}
		if _, err := send(from.device, to.device, loc.Partition, bundle.Position{}, keep); err != nil {
			t.Fatal(what, err)
		}
		m := wantBody(t, to.device, loc, modelBody(name, max(c.data, c.stored)))
		if m.Timestamp != at(max(c.data, c.stored)) || m.MetaTimestamp != at(c.wantMeta) || m.User["X-Object-Meta-Ticks"] != fmt.Sprint(c.wantMeta) {
			t.Errorf("%s: %+v", what, m)
		}
	}
}

// An old null version that a peer has kept has the time of the null version here, and is
// stored beside it.
func TestImportOfAKeptNullVersion(t *testing.T) {
	const name = "/a/c/heron"
	from, to := newMemory(t), newMemory(t)
	for _, m := range []*memory{from, to} {
		m.device.options.KeptID = keptID
		for _, c := range []versionChange{{kind: "put", ticks: 10}, {kind: "put", id: 1, ticks: 20}} {
			if err := doVersion(m.device, name, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := doVersion(from.device, name, versionChange{kind: "put", ticks: 30}); err != nil {
		t.Fatal(err)
	}
	for _, reverse := range []bool{true, false} {
		if _, err := send(from.device, to.device, locate(name, modelBits).Partition, bundle.Position{}, func(all []RawRecord) []RawRecord {
			if reverse {
				slices.Reverse(all)
			}
			return all
		}); err != nil {
			t.Fatal(err)
		}
		want, got := must[string](t)(shows(from.device, name)), must[string](t)(shows(to.device, name))
		if want != got || len(want) == 0 {
			t.Fatalf("%s\nwant\n%s", got, want)
		}
	}
}

// A record that has rotted is replaced by the peer's, and its damage ends.
func TestImportHeals(t *testing.T) {
	const name = "/a/c/heron"
	loc := locate(name, modelBits)
	from, to := newMemory(t), newMemory(t)
	for _, m := range []*memory{from, to} {
		must[State](t)(put(m.device, loc, name, 10, modelBody(name, 11)))
	}
	rotBody(t, to.fs, to.device, name, modelBits)
	if _, _, err := get(to.device, loc); !errors.Is(err, ErrQuarantined) {
		t.Fatal(err)
	}
	if damages, _ := to.device.Damages(); len(damages) != 1 {
		t.Fatalf("%+v", damages)
	}
	if _, err := send(from.device, to.device, loc.Partition, bundle.Position{}, func(all []RawRecord) []RawRecord { return all }); err != nil {
		t.Fatal(err)
	}
	wantBody(t, to.device, loc, modelBody(name, 11))
	if damages, _ := to.device.Damages(); len(damages) != 0 {
		t.Fatalf("%+v", damages)
	}
}

// A POST to data that have rotted is refused, and so is one that a peer has made of
// other data.
func TestPostOverRottenData(t *testing.T) {
	const name = "/a/c/heron"
	loc := locate(name, modelBits)
	from, to := newMemory(t), newMemory(t)
	must[State](t)(put(from.device, loc, name, 10, modelBody(name, 10)))
	if err := doVersion(from.device, name, versionChange{kind: "post", ticks: 20}); err != nil {
		t.Fatal(err)
	}
	must[State](t)(put(to.device, loc, name, 15, modelBody(name, 11)))
	rotBody(t, to.fs, to.device, name, modelBits)
	if err := doVersion(to.device, name, versionChange{kind: "post", ticks: 20}); !errors.Is(err, ErrQuarantined) {
		t.Error(err)
	}
	if _, err := send(from.device, to.device, loc.Partition, bundle.Position{}, slices.Clone[[]RawRecord]); !errors.Is(err, ErrQuarantined) {
		t.Error(err)
	}
}

// Times that no client can give would outlive every later write: a record with one is
// refused.
func TestImportOfTimesOutOfRange(t *testing.T) {
	const name = "/a/c/heron"
	loc := locate(name, modelBits)
	for what, edit := range map[string]func(m *format.Metadata){
		"metadata": func(m *format.Metadata) { m.MetaTimestamp.Ticks = format.TicksMax + 1 },
		"type":     func(m *format.Metadata) { m.TypeTimestamp.Ticks = format.TicksMax + 1 },
	} {
		from, to := newMemory(t), newMemory(t)
		must[State](t)(put(from.device, loc, name, 10, modelBody(name, 10)))
		if err := from.device.Post(loc, func(m *format.Metadata) error { edit(m); return nil }); err != nil {
			t.Fatal(err)
		}
		if _, err := send(from.device, to.device, loc.Partition, bundle.Position{}, slices.Clone[[]RawRecord]); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The deletes of a peer are let in where the room for PUTs is used up: they give back
// room.
func TestImportOfDeletesOnAFullDevice(t *testing.T) {
	const name = "/a/c/heron"
	loc := locate(name, 0)
	from := newMemory(t)
	must[State](t)(put(from.device, loc, name, 10, body(10, 100)))
	mem := vfs.NewMem("/d")
	mem.SetLimit(1 << 20)
	to := open(t, mem, "/d", Options{ReservePercent: 100, compactByHand: true})
	if _, err := send(from.device, to, 0, bundle.Position{}, slices.Clone[[]RawRecord]); !errors.Is(err, ErrNoSpace) {
		t.Error(err)
	}
	must[State](t)(from.device.Delete(loc, at(20), name))
	if _, err := send(from.device, to, 0, bundle.Position{}, slices.Clone[[]RawRecord]); err != nil {
		t.Error(err)
	}
	wantNotFound(t, to, loc, 20)
}
