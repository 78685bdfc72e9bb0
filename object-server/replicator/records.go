package replicator

import (
	"bufio"
	"context"
	"errors"
	"io"
	"path/filepath"

	"martlet/object-server/background"
	"martlet/object-server/bundle"
	"martlet/object-server/device"
	"martlet/object-server/grid"
	"martlet/object-server/replicator/wire"
	"martlet/object-server/vfs"
)

const streamBuffer = 64 << 10

// records are those of an export.
type records interface {
	// Next returns the next record, valid until the next call; io.EOF after the last one.
	Next() (device.RawRecord, error)
	// End says how far the export went, after io.EOF.
	End() bundle.Exported
	Close()
}

// recordsOf begins an export. This process reads the records of a device of its own host itself, so that its priority counts
// for the disk; only what compaction has moved meanwhile comes from the server.
func (r *Replicator) recordsOf(ctx context.Context, from *remote, q *wire.ExportRequest) (records, error) {
	if from.directory == "" {
		return streamOf(ctx, from, q)
	}
	s, err := from.open(ctx, wire.NameLocate, q)
	if err != nil {
		return nil, err
	}
	defer s.Cancel()
	all, done, err := wire.ReadLocated(bufio.NewReaderSize(s, streamBuffer))
	if errors.Is(err, wire.ErrMalformed) { // more records than this process takes in memory
		return streamOf(ctx, from, q)
	}
	if err != nil {
		return nil, err
	}
	files := bundle.Files{Root: from.directory}
	directory := files.Directory(bundle.ID{Policy: from.policy, Partition: q.Partition.Number})
	return &ownRecords{ctx: ctx, from: from, request: *q, end: done, atOnce: r.namesAtOnce, outside: bundle.ReadOutside(vfs.ReadOnly{}, directory, all)}, nil
}

// streamed are the records that a server sends.
type streamed struct {
	*wire.Reader
	stream *grid.Stream
}

func streamOf(ctx context.Context, from *remote, q *wire.ExportRequest) (records, error) {
	s, err := from.open(ctx, wire.NameExport, q)
	if err != nil {
		return nil, err
	}
	return &streamed{wire.NewReader(s), s}, nil
}

// Next implements records.
func (s *streamed) Next() (device.RawRecord, error) {
	s.Free()
	return s.Reader.Next()
}

func (s *streamed) Close() {
	s.Free()
	s.stream.Cancel()
}

// ownRecords are read from the files of a device.
type ownRecords struct {
	ctx     context.Context
	from    *remote
	request wire.ExportRequest
	outside *bundle.Outside
	end     bundle.Exported
	moved   records // what the server sends in the end; nil: not begun
	asked   int     // of the names that have moved, those that the server was asked for
	atOnce  int     // names of one request
}

func (o *ownRecords) Next() (device.RawRecord, error) {
	for {
		if o.moved == nil {
			p, large, err := o.outside.Next()
			if err == nil {
				record := device.RawRecord{Bytes: p}
				if large != nil {
					record.Large = large
				}
				return record, nil
			}
			if !errors.Is(err, io.EOF) {
				return device.RawRecord{}, err
			}
		} else {
			record, err := o.moved.Next()
			if !errors.Is(err, io.EOF) {
				return record, err
			}
			o.end.Skipped += o.moved.End().Skipped
			o.moved.Close()
		}
		if err := o.askMoved(); err != nil {
			return device.RawRecord{}, err
		}
	}
}

// askMoved asks the server for the next names that have moved; io.EOF if there are no more.
func (o *ownRecords) askMoved() (err error) {
	names := o.outside.Moved[o.asked:]
	if len(names) == 0 {
		return io.EOF
	}
	names = names[:min(len(names), o.atOnce)]
	o.asked += len(names)
	q := o.request
	q.Hashes = nil
	for _, hash := range names {
		q.Hashes = wire.AppendHash(q.Hashes, hash)
	}
	o.moved, err = streamOf(o.ctx, o.from, &q)
	return err
}

func (o *ownRecords) End() bundle.Exported { return o.end }

func (o *ownRecords) Close() {
	o.outside.Close()
	if o.moved != nil {
		o.moved.Close()
	}
}

// paced gives records at the rate that is allowed, and counts their bytes.
type paced struct {
	records
	ctx     context.Context
	limiter *background.Rate
	bytes   int64
}

// Next implements records.
func (p *paced) Next() (device.RawRecord, error) {
	record, err := p.records.Next()
	if err != nil {
		return record, err
	}
	if record.Large != nil {
		record.Large = &pacedLarge{record.Large, p}
	}
	return record, p.pass(len(record.Bytes))
}

func (p *paced) pass(bytes int) error {
	p.bytes += int64(bytes)
	return p.limiter.Wait(p.ctx, int64(bytes))
}

type pacedLarge struct {
	device.Large
	paced *paced
}

// ReadAt implements io.ReaderAt.
func (l *pacedLarge) ReadAt(b []byte, offset int64) (int, error) {
	n, err := l.Large.ReadAt(b, offset)
	return n, errors.Join(err, l.paced.pass(n))
}

// deviceDirectory is that of a device of this host.
func (c *Config) deviceDirectory(name string) string {
	if c.Devices == "" {
		return ""
	}
	return filepath.Join(c.Devices, name)
}
