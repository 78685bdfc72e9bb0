package ring

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"martlet/object-server/proof"
)

const goldenFolder = "../../test/golden/ring"

type golden struct {
	Hashes []struct {
		Hash       string            `json:"hash"`
		Partitions map[string]uint32 `json:"partition_by_part_shift"`
		Path       []string          `json:"path"`
		Prefix     string            `json:"prefix"`
		Suffix     string            `json:"suffix"`
	} `json:"hashes"`
	Rings map[string]struct {
		FormatVersion int       `json:"format_version"`
		Version       int64     `json:"version"`
		PartShift     uint      `json:"part_shift"`
		ReplicaCount  float64   `json:"replica_count"`
		Devices       []*Device `json:"devices"`
		Assignments   [][]int   `json:"replica_to_partition_to_device"`
	} `json:"rings"`
}

func readGolden(t testing.TB) golden {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(goldenFolder, "assignments.json"))
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(content, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Rings) != 2 || len(g.Hashes) == 0 {
		t.Fatalf("golden file holds %d rings and %d hashes", len(g.Rings), len(g.Hashes))
	}
	return g
}

func TestRingsAgreeWithSwiftOnEveryPartition(t *testing.T) {
	for name, want := range readGolden(t).Rings {
		r, err := Load(filepath.Join(goldenFolder, name))
		if err != nil {
			t.Fatal(err)
		}
		if r.FormatVersion != want.FormatVersion || r.Version != want.Version || r.PartShift != want.PartShift ||
			r.ReplicaCount != want.ReplicaCount {
			t.Errorf("%s: got %+v", name, r)
		}
		for id, device := range want.Devices {
			if *r.Devices[id] != *device {
				t.Errorf("%s: device %d: got %+v, want %+v", name, id, r.Devices[id], device)
			}
		}
		for partition := range r.PartitionCount() {
			var wantIDs, gotIDs []int
			for _, row := range want.Assignments {
				wantIDs = append(wantIDs, row[partition])
			}
			for _, device := range r.PartitionDevices(uint32(partition)) {
				gotIDs = append(gotIDs, device.ID)
			}
			if !slices.Equal(gotIDs, wantIDs) {
				t.Fatalf("%s: partition %d: got %v, want %v", name, partition, gotIDs, wantIDs)
			}
		}
		if got := r.PartitionDevices(uint32(r.PartitionCount())); len(got) != 0 {
			t.Errorf("%s: a partition outside the ring has devices %v", name, got)
		}
	}
}

func TestHashAndPartitionAgreeWithSwift(t *testing.T) {
	for _, want := range readGolden(t).Hashes {
		hash := NewHasher(want.Prefix, want.Suffix).Path(want.Path...)
		if got := hex.EncodeToString(hash[:]); got != want.Hash {
			t.Errorf("%q: got %s, want %s", want.Path, got, want.Hash)
		}
		for shift, partition := range want.Partitions {
			bits, err := strconv.Atoi(shift)
			if err != nil {
				t.Fatal(err)
			}
			if got := (&Ring{PartShift: uint(bits)}).Partition(hash); got != partition {
				t.Errorf("%q: partition %d, want %d", want.Path, got, partition)
			}
		}
	}
}

func uncompressed(t testing.TB, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(goldenFolder, name))
	if err != nil {
		t.Fatal(err)
	}
	reader, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func compress(t testing.TB, content []byte) []byte {
	t.Helper()
	var buffer bytes.Buffer
	writer, err := gzip.NewWriterLevel(&buffer, gzip.NoCompression) // what is fuzzed is the ring's format
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func TestDamagedRingsAreRefused(t *testing.T) {
	v1, v2 := uncompressed(t, "object.ring.gz"), uncompressed(t, "v2.ring.gz")
	flip := func(content []byte, at int) []byte {
		damaged := bytes.Clone(content)
		damaged[at] ^= 0xff
		return damaged
	}
	v2Devices := bytes.Index(v2, []byte(`"zone"`))
	for name, content := range map[string][]byte{
		"empty":                 {},
		"another magic":         flip(v1, 0),
		"another version":       flip(v1, 5),
		"huge JSON length":      flip(v1, 6),
		"v1 cut within JSON":    v1[:100],
		"v1 without rows":       v1[:len(v1)-3*2*1024],
		"v1 odd length":         v1[:len(v1)-1],
		"v1 row too many":       append(bytes.Clone(v1), make([]byte, 2048)...),
		"v1 unknown device":     flip(v1, len(v1)-2),
		"v2 cut":                v2[:20],
		"v2 index offset":       flip(v2, len(v2)-16),
		"v2 device blob flip":   flip(v2, v2Devices+2),
		"v2 section length":     flip(v2, 6),
		"v2 assignment flipped": flip(v2, len(v2)-1500),
	} {
		if _, err := Read(bytes.NewReader(compress(t, content))); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: got error %v", name, err)
		}
	}
	if _, err := Read(bytes.NewReader([]byte("plain text"))); !errors.Is(err, ErrFormat) {
		t.Errorf("not gzip: got error %v", err)
	}
}

func TestLastReplicaMayBeShort(t *testing.T) {
	v1 := uncompressed(t, "object.ring.gz")
	half := v1[:len(v1)-1024]
	r, err := Read(bytes.NewReader(compress(t, half)))
	if err != nil {
		t.Fatal(err)
	}
	if r.ReplicaCount != 2.5 || len(r.PartitionDevices(0)) != 3 || len(r.PartitionDevices(1023)) != 2 {
		t.Errorf("got %v replicas, %d and %d devices", r.ReplicaCount, len(r.PartitionDevices(0)),
			len(r.PartitionDevices(1023)))
	}
}

// OpenStack Swift writes a row without any id for a fraction of a replica that is less than one partition.
func TestLastReplicaMayBeEmpty(t *testing.T) {
	v1 := bytes.Replace(uncompressed(t, "object.ring.gz"), []byte(`"replica_count": 3`), []byte(`"replica_count": 4`), 1)
	r, err := Read(bytes.NewReader(compress(t, v1)))
	if err != nil {
		t.Fatal(err)
	}
	if r.ReplicaCount != 3 || len(r.PartitionDevices(0)) != 3 {
		t.Errorf("got %v replicas, %d devices", r.ReplicaCount, len(r.PartitionDevices(0)))
	}
}

func FuzzRead(f *testing.F) {
	f.Add(uncompressed(f, "object.ring.gz"))
	f.Add(uncompressed(f, "v2.ring.gz"))
	f.Fuzz(func(t *testing.T, content []byte) {
		file := compress(t, content)
		var r *Ring
		var err error
		proof.Bounded(t, len(content), func() { r, err = Read(bytes.NewReader(file)) })
		if err != nil {
			return
		}
		for _, partition := range []uint32{0, uint32(r.PartitionCount() - 1)} {
			for _, device := range r.PartitionDevices(partition) {
				_ = device.Name
			}
		}
	})
}

// A damaged file must not stop the work by the ring that was read before, and is told once, not at each look.
func TestADamagedFileLeavesTheRingInUse(t *testing.T) {
	files := Files{Directory: t.TempDir()}
	path := filepath.Join(files.Directory, "object.ring.gz")
	good, err := os.ReadFile(filepath.Join(goldenFolder, "object.ring.gz"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(good[:100])
	for range 2 {
		if found, err := files.Object(0); found != nil || err == nil {
			t.Fatalf("a ring %v, error %v of a damaged file", found, err)
		}
	}
	write(good)
	before, err := files.Object(0)
	if before == nil || err != nil {
		t.Fatal(before, err)
	}
	write(good[:200])
	devices := 0
	look := func() error {
		return files.Each([]int{0}, func(*Device) bool { return true }, func(*Ring, int, *Device) { devices++ })
	}
	if err := look(); err == nil || devices == 0 {
		t.Fatalf("%d devices, error %v", devices, err)
	}
	if err := look(); err != nil {
		t.Fatalf("told again: %v", err)
	}
	for range 2 {
		if _, err := files.Intact(0); err == nil {
			t.Fatal("the ring from before counts as intact")
		}
	}
	write(good)
	if found, err := files.Intact(0); found == before || err != nil {
		t.Fatalf("the good file is not read: %v", err)
	}
}

// The disk may be the reason, and the file good: only another look can tell. It is told once, and once that it reads again.
func TestAFileThatIsNotReadIsTriedAgain(t *testing.T) {
	var log proof.Log
	files := Files{Directory: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil))}
	path := filepath.Join(files.Directory, "object.ring.gz")
	good, err := os.ReadFile(filepath.Join(goldenFolder, "object.ring.gz"))
	proof.Check(t, err)
	wantLines := func(when string, failures, returns int) {
		t.Helper()
		text := log.String()
		if strings.Count(text, "a ring cannot be read") != failures || strings.Count(text, "a ring can be read again") != returns {
			t.Errorf("%s: not %d failures and %d returns: %s", when, failures, returns, text)
		}
	}
	write := func() {
		t.Helper()
		proof.Check(t, os.RemoveAll(path))
		proof.Check(t, os.WriteFile(path, good, 0o600))
	}
	ail := func() {
		t.Helper()
		proof.Check(t, os.RemoveAll(path))
		proof.Check(t, os.Mkdir(path, 0o700))
	}
	ail()
	for range 3 {
		if found, err := files.Object(0); found != nil || err == nil {
			t.Fatalf("a ring %v, error %v", found, err)
		}
	}
	wantLines("no ring was read yet", 1, 0)
	write()
	before, err := files.Object(0)
	proof.Check(t, err)
	wantLines("it reads", 1, 1)
	ail()
	for n := range 3 {
		if found, err := files.Object(0); found != before || (err != nil) != (n == 0) {
			t.Fatalf("look %d: a ring that is not the one before, or error %v", n, err)
		}
		if found, err := files.Intact(0); err == nil {
			t.Fatalf("%p counts as intact", found)
		}
	}
	wantLines("the ring from before is in use", 2, 1)
	write()
	for range 3 {
		if found, err := files.Intact(0); found == before || err != nil {
			t.Fatalf("the good file is not read: %v", err)
		}
	}
	wantLines("it reads again", 2, 2)
}

// A ring that must be there is told of when it is missing; that of a policy need not be there.
func TestAMissingRing(t *testing.T) {
	var log proof.Log
	files := Files{Directory: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil))}
	for range 3 {
		if found, err := files.Object(1); found != nil || err != nil {
			t.Errorf("%v %v", found, err)
		}
		if found, err := files.Named("container"); found != nil || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v %v", found, err)
		}
	}
	if text := log.String(); strings.Count(text, "level=") != 1 || !strings.Contains(text, "container.ring.gz") {
		t.Error(text)
	}
}
