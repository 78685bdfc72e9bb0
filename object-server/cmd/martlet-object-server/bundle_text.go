package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"martlet/object-server/bundle/inspect"
)

// fields are lines of a name and a value each.
type fields struct{ strings.Builder }

func (t *fields) add(name string, value any) { fmt.Fprintf(t, "%-18s %v\n", name, value) }

// segmentText writes a line for each field of a segment's header.
func (f *bundleFlags) segmentText(s *inspect.SegmentDescription) error {
	var t fields
	t.add("segment", s.File)
	t.add("bytes", s.Bytes)
	if h := s.Header; h != nil {
		t.add("policy", h.Policy)
		t.add("partition", h.Partition)
		t.add("sequence", h.Sequence)
		t.add("through", h.Through)
		t.add("generation", h.Generation)
		t.add("uuid", h.UUID)
		t.add("bundle", h.Bundle)
		t.add("created", h.Created)
	} else {
		t.add("header", "DAMAGED")
	}
	t.add("salt", s.Salt)
	t.add("base LSN", s.BaseLSN)
	if s.Sealed {
		t.add("footer", fmt.Sprintf("%d bytes, %d records, last LSN %d", s.FooterSize, s.Records, s.LastLSN))
	} else {
		t.add("footer", "none")
	}
	_, err := fmt.Fprint(f.stdout, t.String())
	return err
}

// record writes a line for each field of a record.
func (f *bundleFlags) record(d *inspect.Description) error {
	var t fields
	t.add("offset", d.Offset)
	t.add("length", d.Length)
	t.add("type", d.Type)
	t.add("flags", fmt.Sprintf("%#04x", d.Flags))
	t.add("LSN", d.LSN)
	t.add("durable before", d.Watermark)
	t.add("salt", d.Salt)
	t.add("hash", d.Hash)
	t.add("version id", d.VersionID)
	t.add("timestamp", d.Timestamp)
	t.add("previous version", d.Previous)
	t.add("versions", d.Versions)
	t.add("object size", d.Size)
	t.add("metadata length", d.MetadataLength)
	t.add("signature", d.Signature)
	t.add("checkpoint", d.Checkpoint)
	if d.LargeID != "" {
		t.add("large file", "large/"+d.LargeID+".data")
	}
	t.metadata(d.Metadata)
	t.chain(d.Chain)
	for _, c := range d.Checks {
		t.add("checksum", c.What+map[bool]string{true: ": good", false: ": DAMAGED"}[c.Good])
	}
	_, err := fmt.Fprint(f.stdout, t.String())
	return err
}

func (t *fields) metadata(m *inspect.Shown) {
	if m == nil || m.Name == "" {
		return
	}
	t.add("name", m.Name)
	t.add("content type", m.ContentType)
	t.add("ETag", m.ETag)
	t.add("delete at", m.DeleteAt)
	t.add("metadata of", m.MetaTimestamp)
	t.add("content type of", m.TypeTimestamp)
	for _, headers := range []map[string]string{m.System, m.User} {
		for _, name := range slices.Sorted(maps.Keys(headers)) {
			t.add("header", name+": "+headers[name])
		}
	}
}

func (t *fields) chain(c *inspect.Chained) {
	if c == nil {
		return
	}
	reference := func(r inspect.ChainedReference) string {
		lsn := fmt.Sprint("LSN ", r.LSN)
		if r.LSN == 0 {
			lsn = "this record"
		}
		return fmt.Sprintf("%s, %s, version id %s", lsn, r.Timestamp, shownID(r.VersionID))
	}
	if c.Next == 0 {
		t.add("chain", fmt.Sprintf("%d records, all told here", c.Entries))
	} else {
		t.add("chain", fmt.Sprintf("%d records, goes on at LSN %d, where none is later than %s", c.Entries, c.Next, c.Bound))
	}
	if c.Gap {
		t.add("chain", "damage has cut off a part of it")
	}
	t.add("newest version", reference(c.Newest))
	if c.Lives {
		t.add("null version", reference(c.Null))
	} else {
		t.add("null version", "none")
	}
	for _, v := range c.Listed {
		t.add("older record", fmt.Sprintf("%s, %s, %d bytes", reference(v.ChainedReference), v.Type, v.Size))
	}
}
