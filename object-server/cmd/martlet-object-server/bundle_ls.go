package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/inspect"
	"martlet/object-server/vfs"
)

// partitionLine is a partition in a listing.
type partitionLine struct {
	Policy    int    `json:"policy"`
	Partition uint32 `json:"partition"`
	*inspect.Survey
}

// ls lists the contents of the paths. If one cannot be read, it goes on with the
// others.
func (f *bundleFlags) ls(arguments []string) error {
	objects := f.set.Bool("objects", false, "")
	versions := f.set.Bool("versions", false, "")
	paths, err := f.parse(arguments)
	if err != nil {
		return err
	}
	if *objects && *versions {
		return fmt.Errorf("%w: --objects and --versions exclude each other", errUsage)
	}
	var failed error
	for _, path := range paths {
		targets, err := readTargets([]string{path})
		if err != nil {
			f.complain(err)
			failed = errors.Join(failed, errTold)
		}
		for _, t := range targets {
			if t.isQuarantined && !f.json {
				fmt.Fprintf(f.stdout, "%s:\n", t.path)
			}
			failed = errors.Join(failed, f.list(t, *objects, *versions))
		}
	}
	return failed
}

// list lists the contents of one target, and reports errors.
func (f *bundleFlags) list(t *target, objects, versions bool) (err error) {
	switch {
	case t.file != "" && (objects || versions):
		err = fmt.Errorf("%s is a segment file; its objects may have newer records in others: give its directory", t.path)
	case t.file != "":
		err = f.listRecords(t)
	case objects || versions:
		err = f.listObjects(t, versions)
	default:
		err = f.listPartitions(t)
	}
	if err != nil && !errors.Is(err, errDamage) && !errors.Is(err, errTold) {
		f.complain(err)
		err = errTold
	}
	return err
}

// listPartitions shows the partitions of a device, or the segments of one.
func (f *bundleFlags) listPartitions(t *target) error {
	var w *tabwriter.Writer
	switch {
	case f.json:
	case t.isDevice:
		w = f.table("policy\tpartition\tsegments\tbytes\tnames\ttombstones\tversions\tlarge\tdead\tdamage\t")
	default:
		w = f.table("segment\tLSN from\tto\tbytes\tsealed\tcheckpoint\trecords\tdead\tdead bytes\t")
	}
	var failed error
	err := t.each(vfs.ReadOnly{}, func(files *bundle.Files, id bundle.ID) error {
		survey, err := inspect.Look(files, id)
		if err != nil {
			f.complain(fmt.Errorf("%s: %w", t.directory(id), err))
			failed = errTold
			return nil
		}
		for _, damage := range survey.Damaged {
			failed = errors.Join(failed, errDamage)
			fmt.Fprintf(f.stderr, "damage: %s\n", damage)
		}
		switch {
		case f.json:
			return f.line(partitionLine{id.Policy, id.Partition, survey})
		case t.isDevice:
			partitionRow(w, id, survey)
		default:
			segmentRows(w, survey)
		}
		return nil
	})
	if w != nil {
		err = errors.Join(err, w.Flush())
	}
	return errors.Join(err, failed)
}

func (f *bundleFlags) table(head string) *tabwriter.Writer {
	w := tabwriter.NewWriter(f.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, head)
	return w
}

func partitionRow(w io.Writer, id bundle.ID, s *inspect.Survey) {
	fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d%%\t%d\t\n", id.Policy, id.Partition, len(s.Segments), s.Bytes, s.Names,
		s.Tombstones, s.Versions, s.Large, percent(s.DeadBytes, s.Bytes), len(s.Damaged))
}

func segmentRows(w io.Writer, survey *inspect.Survey) {
	for _, s := range survey.Segments {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%v\t%d\t%d\t%d\t%d%%\t\n", s.File, s.BaseLSN, s.LastLSN, s.Bytes, s.Sealed, s.Checkpoint,
			s.Records, s.Dead, percent(s.DeadBytes, s.Bytes))
	}
}

func percent(part, whole int64) int64 { return 100 * part / max(whole, 1) }

// objectLine is an object in a listing.
type objectLine struct {
	Policy    int    `json:"policy"`
	Partition uint32 `json:"partition"`
	*inspect.Object
}

// listObjects shows the objects, or all versions, as they come.
func (f *bundleFlags) listObjects(t *target, versions bool) error {
	if !f.json {
		fmt.Fprintf(f.stdout, "%9s %-13s %-16s %-32s %8s %12s  %s\n", "partition", "type", "timestamp", "version id", "versions", "size", "name")
	}
	var failed error
	err := t.each(vfs.ReadOnly{}, func(files *bundle.Files, id bundle.ID) error {
		err := inspect.Objects(files, id, versions, func(o *inspect.Object) error {
			if o.Damage != "" {
				failed = errors.Join(failed, errDamage)
			}
			if f.json {
				return f.line(objectLine{id.Policy, id.Partition, o})
			}
			_, err := fmt.Fprintf(f.stdout, "%9d %-13s %-16s %-32s %8d %12d  %s\n", id.Partition, o.Type, o.Timestamp, shownID(o.VersionID),
				o.Versions, o.Size, shownName(o))
			return err
		})
		if err != nil {
			f.complain(fmt.Errorf("%s: %w", t.directory(id), err))
			failed = errTold
		}
		return nil
	})
	return errors.Join(err, failed)
}

// shownID is a version id; that of the null version is a dash.
func shownID(id string) string {
	if id == "00000000000000000000000000000000" {
		return "-"
	}
	return id
}

func shownName(o *inspect.Object) string {
	name := o.Name
	if name == "" {
		name = "hash " + o.Hash.String()
	}
	if o.Damage != "" {
		name += "  damage: " + o.Damage
	}
	return name
}

// recordLine is a record in the listing of a segment.
type recordLine struct {
	Path      string         `json:"path,omitempty"` // the segment file, if a directory in quarantine was asked for
	Offset    int64          `json:"offset"`
	LSN       uint64         `json:"lsn,omitempty"`
	Type      string         `json:"type,omitempty"`
	Timestamp string         `json:"timestamp,omitempty"`
	VersionID string         `json:"version_id,omitempty"`
	Size      int64          `json:"size"`
	Name      string         `json:"name,omitempty"`
	Hash      string         `json:"hash,omitempty"`
	Damage    *bundle.Damage `json:"damage,omitempty"`
}

// listRecords shows the records of a segment as they come. The bytes of the
// objects are not read.
func (f *bundleFlags) listRecords(t *target) error {
	scan, err := inspect.OpenScan(vfs.ReadOnly{}, t.path, false)
	if err != nil {
		return err
	}
	defer scan.Close()
	if !f.json {
		fmt.Fprintf(f.stdout, "%10s %10s %-17s %16s %10s  %s\n", "offset", "LSN", "type", "timestamp", "size", "name")
	}
	return eachEntry(scan, func(e *inspect.Entry) error {
		line := recordLineOf(e)
		if t.isQuarantined {
			line.Path = t.path
		}
		switch {
		case f.json:
			return f.line(line)
		case e.Damage != nil:
			_, err = fmt.Fprintf(f.stdout, "%10d damage: %s\n", e.Offset, e.Damage)
		default:
			_, err = fmt.Fprintf(f.stdout, "%10d %10d %-17s %16s %10d  %s\n", line.Offset, line.LSN, line.Type, line.Timestamp, line.Size, line.Name)
		}
		return err
	})
}

func recordLineOf(e *inspect.Entry) recordLine {
	line := recordLine{Offset: e.Offset, Damage: e.Damage}
	if r := e.Record; r != nil {
		line.LSN, line.Type, line.Size = r.LSN(), r.Type().String(), r.Size()
		if r.Hash() != (format.Hash{}) {
			line.Timestamp, line.Hash = r.Timestamp().String(), r.Hash().String()
			id := r.VersionID()
			line.VersionID = hex.EncodeToString(id[:])
		}
	}
	if m := e.Metadata(); m != nil {
		line.Name = m.Name
	}
	return line
}
