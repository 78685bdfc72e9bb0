package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/inspect"
	"martlet/object-server/vfs"
)

// selection is which records of a segment to dump.
type selection struct {
	offset int64
	lsn    uint64
	name   string
	hash   string
}

// count is the number of selections on the command line.
func (s *selection) count() (n int) {
	for _, given := range []bool{s.offset >= 0, s.lsn > 0, s.name != "", s.hash != ""} {
		if given {
			n++
		}
	}
	return n
}

// fits reports whether a record is selected, except by its offset.
func (s *selection) fits(e *inspect.Entry) bool {
	switch {
	case s.lsn > 0:
		return e.Record.LSN() == s.lsn
	case s.name != "":
		m := e.Metadata()
		return m != nil && m.Name == s.name
	}
	return e.Record.Hash().String() == strings.ToLower(s.hash)
}

// dump shows records of a segment file.
func (f *bundleFlags) dump(arguments []string) error {
	var s selection
	f.set.Int64Var(&s.offset, "offset", -1, "")
	f.set.Uint64Var(&s.lsn, "lsn", 0, "")
	f.set.StringVar(&s.name, "name", "", "")
	f.set.StringVar(&s.hash, "hash", "", "")
	data := f.set.String("data", "", "")
	path, err := f.one(arguments)
	if err != nil {
		return err
	}
	switch n := s.count(); {
	case n > 1:
		return fmt.Errorf("%w: --offset, --lsn, --name and --hash exclude each other", errUsage)
	case s.hash != "" && !isHash(s.hash):
		return fmt.Errorf("%w: --hash %q is not a hash, which has 32 hexadecimal digits", errUsage, s.hash)
	case *data != "" && f.json:
		return fmt.Errorf("%w: --data and --json exclude each other", errUsage)
	case *data != "" && n == 0:
		return fmt.Errorf("%w: --data needs one of --offset, --lsn, --name and --hash", errUsage)
	}
	t, err := readTarget(path)
	if err != nil {
		return err
	}
	if t.file == "" {
		return fmt.Errorf("%s is a directory; dump takes a segment file, as \"bundle ls\" lists them", path)
	}
	if s.count() == 0 {
		return f.dumpAll(path)
	}
	return f.dumpOne(path, &s, *data)
}

func isHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == len(format.Hash{})
}

func (f *bundleFlags) dumpOne(path string, s *selection, data string) error {
	if s.offset < 0 {
		offset, found, err := inspect.Search(vfs.ReadOnly{}, path, s.fits)
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("%s has no such record; \"bundle ls\" lists those it has", path)
		}
		s.offset = offset
	}
	d, err := inspect.Describe(vfs.ReadOnly{}, path, s.offset)
	if err != nil {
		return err
	}
	switch {
	case data != "":
		err = f.extract(d, data)
	case f.json:
		err = f.line(d)
	default:
		err = f.record(d)
	}
	if err == nil && !d.Good() {
		if data != "" {
			f.complain(errors.New("a checksum of this record is wrong: its bytes are not those that were stored"))
		}
		err = errDamage
	}
	return err
}

// extract writes the bytes of the object to a new file, or to the output.
func (f *bundleFlags) extract(d *inspect.Description, path string) error {
	if d.LargeID != "" {
		return fmt.Errorf("the bytes are not in this record; they are in large/%s.data beside the segment", d.LargeID)
	}
	if d.Type != format.TypePut.String() {
		return fmt.Errorf("this record is a %s and has no object", d.Type)
	}
	if path == "-" {
		_, err := f.stdout.Write(d.Data)
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(d.Data)
	return errors.Join(err, file.Close())
}

// dumpAll shows the header of a segment, and all records and damage in it.
func (f *bundleFlags) dumpAll(path string) error {
	scan, err := inspect.OpenScan(vfs.ReadOnly{}, path, true)
	if err != nil {
		return err
	}
	defer scan.Close()
	if err := f.segment(scan.Segment()); err != nil {
		return err
	}
	return eachEntry(scan, func(e *inspect.Entry) error { return f.entry(scan, e) })
}

// eachEntry calls show for all records and damage in a segment. It returns errDamage if there is damage.
func eachEntry(scan *inspect.Scan, show func(*inspect.Entry) error) error {
	var failed error
	for {
		e, err := scan.Next()
		if err == io.EOF {
			return failed
		}
		if err != nil {
			return err
		}
		if e.Damage != nil {
			failed = errDamage
		}
		if err := show(e); err != nil {
			return err
		}
	}
}

func (f *bundleFlags) segment(s *inspect.SegmentDescription) error {
	if f.json {
		return f.line(map[string]any{"segment": s})
	}
	return f.segmentText(s)
}

func (f *bundleFlags) entry(scan *inspect.Scan, e *inspect.Entry) error {
	var d *inspect.Description
	if e.Record != nil {
		var err error
		if d, err = scan.Describe(e); err != nil {
			return err
		}
	}
	switch {
	case f.json && d != nil:
		return f.line(d)
	case f.json:
		return f.line(map[string]any{"damage": e.Damage})
	}
	if e.Damage != nil {
		if _, err := fmt.Fprintf(f.stdout, "\ndamage: %s\n", e.Damage); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintln(f.stdout); err != nil {
		return err
	}
	if d == nil {
		return nil
	}
	return f.record(d)
}
