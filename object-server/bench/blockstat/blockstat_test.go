package blockstat

import (
	"os"
	"testing"
)

func TestParse(t *testing.T) {
	c, err := parse(" 10 1 16 5   20 2 24 6   0 7 8   1 2 3 4   9 30\n")
	want := Counters{Reads: 10, ReadBytes: 16 * 512, Writes: 20, WrittenBytes: 24 * 512, Flushes: 9}
	if err != nil || c != want {
		t.Fatalf("got %+v, %v, want %+v", c, err, want)
	}
	if got := c.Since(Counters{Reads: 4, Flushes: 9}); got.Reads != 6 || got.Flushes != 0 {
		t.Fatalf("since: %+v", got)
	}
	for _, text := range []string{"", "1 2 3", "a 1 16 5 20 2 24 6 0 7 8 1 2 3 4 9 30"} {
		if _, err := parse(text); err == nil {
			t.Errorf("%q is taken for counters", text)
		}
	}
}

func TestFlushedBytesAreCounted(t *testing.T) {
	directory := t.TempDir()
	d, err := Of(directory)
	if err != nil {
		t.Skip(err)
	}
	before, err := d.Read()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(directory + "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err = f.Write(make([]byte, 1<<20)); err == nil {
		err = f.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
	after, err := d.Read()
	if err != nil {
		t.Fatal(err)
	}
	if c := after.Since(before); c.WrittenBytes < 1<<20 {
		t.Fatalf("wrote 1 MiB, the device counted %+v", c)
	}
}
