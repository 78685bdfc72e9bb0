package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/inspect"
	"martlet/object-server/device/journal"
	"martlet/object-server/vfs"
)

// report is the result of verify, in the form of its JSON.
type report struct {
	Partitions     int     `json:"partitions"`
	Segments       int     `json:"segments"`
	Records        int     `json:"records"`
	LargeFiles     int     `json:"large_files"`
	TornEnds       int     `json:"torn_ends"`
	BytesRead      int64   `json:"bytes_read"`
	Seconds        float64 `json:"seconds"`
	BytesPerSecond int64   `json:"bytes_per_second"`
	Damages        int     `json:"damages"`
}

type damageLine struct {
	Path string `json:"path"` // the partition's directory, or the file
	bundle.Damage
}

// verifier verifies targets one after the other.
type verifier struct {
	flags  *bundleFlags
	meter  *meter
	report report
	failed bool // a partition could not be read

	targets []*target
}

// verify reads everything that the paths name.
func (f *bundleFlags) verify(arguments []string) error {
	rate := f.set.String("rate", "0", "")
	paths, err := f.parse(arguments)
	if err != nil {
		return err
	}
	v := verifier{flags: f, meter: newMeter(vfs.ReadOnly{Ahead: true})}
	if v.meter.rate, err = readBytes(*rate); err != nil {
		return fmt.Errorf("%w: --rate %w", errUsage, err)
	}
	if v.targets, err = readTargets(paths); err != nil {
		return err
	}
	total := int64(0)
	for _, t := range v.targets {
		total += t.bytes()
	}
	stop := v.meter.progress(f.stderr, total)
	for _, t := range v.targets {
		if err = v.target(t); err != nil {
			break
		}
	}
	stop()
	if err != nil {
		return err
	}
	return v.finish()
}

func (v *verifier) target(t *target) error {
	if t.root == "" {
		return v.file(t)
	}
	next := 0
	return t.each(v.meter, func(files *bundle.Files, id bundle.ID) error {
		directory := t.directory(id)
		if next++; next < len(t.partitions) {
			v.prefetch(t.directory(t.partitions[next]))
		}
		verdict, err := inspect.Verify(files, id, t.file)
		if err != nil { // the other partitions are still read
			v.failed = true
			v.meter.clear()
			v.flags.complain(fmt.Errorf("%s could not be verified: %w", directory, err))
			return nil
		}
		r := &v.report
		r.Partitions++
		r.Segments, r.Records = r.Segments+verdict.Segments, r.Records+verdict.Records
		r.LargeFiles, r.TornEnds = r.LargeFiles+verdict.LargeFiles, r.TornEnds+verdict.TornTails
		for _, d := range verdict.Damages {
			if err := v.add(damageLine{directory, d}); err != nil {
				return err
			}
		}
		return nil
	})
}

// prefetch reads the start of a partition before its turn.
func (v *verifier) prefetch(directory string) {
	entries, err := os.ReadDir(directory)
	if err != nil { // reported when it is its turn
		return
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), segmentSuffix) {
			v.meter.Prefetch(filepath.Join(directory, entry.Name()))
			return
		}
	}
}

// file verifies a segment that is not in its place.
func (v *verifier) file(t *target) error {
	scan, err := inspect.OpenScan(v.meter, t.path, true)
	if err != nil {
		return err
	}
	defer scan.Close()
	v.report.Segments++
	err = eachEntry(scan, func(e *inspect.Entry) error {
		if e.Record != nil && e.Record.Hash() != (format.Hash{}) {
			v.report.Records++
		}
		if e.Damage != nil {
			return v.add(damageLine{t.path, *e.Damage})
		}
		return nil
	})
	if err != nil && !errors.Is(err, errDamage) { // damage is in the report
		return err
	}
	if scan.Torn() {
		v.report.TornEnds++
	}
	return nil
}

// add reports damage at once.
func (v *verifier) add(d damageLine) error {
	v.report.Damages++
	v.meter.clear()
	if v.flags.json {
		return v.flags.line(map[string]any{"damage": d})
	}
	_, err := fmt.Fprintf(v.flags.stdout, "%s: %s\n", d.Path, &d.Damage)
	return err
}

func (v *verifier) finish() error {
	r := &v.report
	r.BytesRead, r.Seconds = v.meter.read.Load(), time.Since(v.meter.start).Seconds()
	r.BytesPerSecond = int64(float64(r.BytesRead) / max(r.Seconds, 1e-6))
	var err error
	if v.flags.json {
		err = v.flags.line(map[string]any{"summary": r})
	} else {
		_, err = fmt.Fprintf(v.flags.stdout, "%s, %s, %s, %s, %s, %s in %.1f s (%s/s): %s\n",
			count(r.Partitions, "partition"), count(r.Segments, "segment"), count(r.Records, "record"), count(r.LargeFiles, "large file"),
			count(r.TornEnds, "torn end"), size(r.BytesRead), r.Seconds, size(r.BytesPerSecond), count(r.Damages, "damage"))
	}
	switch {
	case err != nil:
		return err
	case v.failed:
		return errTold
	case r.Damages > 0:
		v.hint()
		return errDamage
	}
	return nil
}

// hint says what to do about damage.
func (v *verifier) hint() {
	for _, t := range v.targets {
		v.flags.hintJournal(t)
	}
	fmt.Fprintln(v.flags.stderr, "Damaged records are not served. Restore them from replicas, and run \"bundle repair\"; see doc/bundle-tools.md")
}

// hintJournal warns that records in the journal of a device may be missing from its
// bundles, if its server was not stopped cleanly.
func (f *bundleFlags) hintJournal(t *target) {
	if t.root == "" {
		return
	}
	if _, err := os.Stat(filepath.Join(t.root, journal.Directory)); err == nil {
		fmt.Fprintf(f.stderr, "%s has a journal. If its server was not stopped cleanly, the journal may have records that are missing here: start the server once, then check again.\n", t.root)
	}
}

// count is a number of things.
func count[N int | uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// readBytes reads a number of bytes with an optional K, M or G.
func readBytes(s string) (int64, error) {
	number, factor := s, int64(1)
	if i := strings.IndexByte("KMG", (s + " ")[max(len(s)-1, 0)]); i >= 0 {
		number, factor = s[:len(s)-1], 1<<(10*(i+1))
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > 1<<50/factor {
		return 0, fmt.Errorf("%q is not a number of bytes like 5000000, 500K, 50M or 1G", s)
	}
	return n * factor, nil
}
