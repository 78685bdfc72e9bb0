package device

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

var quiet = slog.New(slog.DiscardHandler)

// locate places a name as a ring with 2^bits partitions would.
func locate(name string, bits int) Location {
	hash := format.Hash(md5.Sum([]byte(name)))
	return Location{Partition: binary.BigEndian.Uint32(hash[:]) >> (32 - bits), Hash: hash}
}

func at(ticks uint64) format.Timestamp { return format.Timestamp{Ticks: ticks} }

// body is content that depends on the seed in every byte.
func body(seed uint64, size int) []byte {
	b := make([]byte, 0, size+8)
	for x := seed*2 + 1; len(b) < size; x = x*6364136223846793005 + 1442695040888963407 {
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	return b[:size]
}

func open(t testing.TB, fs vfs.FS, root string, o Options) *Device {
	t.Helper()
	o.Logger = quiet
	d, err := Open(fs, root, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func put(d *Device, loc Location, name string, ticks uint64, data []byte) (State, error) {
	u, err := d.NewUpload(loc, int64(len(data)))
	if err != nil {
		return State{}, err
	}
	defer u.Abort()
	if _, err := u.Write(data); err != nil {
		return State{}, err
	}
	return u.Commit(&format.Metadata{
		Name: name, ContentType: "text/plain", Size: int64(len(data)), Timestamp: at(ticks),
		User: format.Headers{"X-Object-Meta-Ticks": fmt.Sprint(ticks)},
	})
}

// get returns an object's bytes, nil if there is none.
func get(d *Device, loc Location) ([]byte, *format.Metadata, error) {
	o, err := d.Open(loc)
	if err != nil {
		return nil, nil, err
	}
	defer o.Close()
	var b bytes.Buffer
	err = o.WriteRange(&b, 0, o.Metadata().Size)
	return b.Bytes(), o.Metadata(), err
}

func wantBody(t testing.TB, d *Device, loc Location, want []byte) *format.Metadata {
	t.Helper()
	got, m, err := get(d, loc)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("got %d bytes, want %d; or the bytes differ", len(got), len(want))
	}
	return m
}

func wantNotFound(t testing.TB, d *Device, loc Location, tombstone uint64) {
	t.Helper()
	_, err := d.Head(loc)
	var gone *NotFoundError
	if !errors.As(err, &gone) || gone.Tombstone != at(tombstone) {
		t.Fatalf("got %v, want not found with tombstone %d", err, tombstone)
	}
	if _, err := d.Open(loc); !errors.As(err, &gone) {
		t.Fatalf("open: %v", err)
	}
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
