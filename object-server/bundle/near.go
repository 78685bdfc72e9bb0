package bundle

import (
	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/segment"
)

// A record is looked for first where it would lie if all records between two
// samples had one length. nearBefore is read before that place and nearBytes in
// all: the longest version blocks, of which there are few, lead astray as far.
const (
	nearBefore = 5 << 10
	nearBytes  = 14 << 10
)

// near looks for the record there. It is nil where it does not lie there, where
// it is damaged, and where data look like records: then h.run tells. The buffer is
// the caller's.
func (h *hop) near(file *handle) (*format.Record, *buffers.Buffer) {
	if h.records == 0 || h.bytes <= nearBytes {
		return nil, nil
	}
	v := segment.NewWindow(file, h.end, nearBytes)
	ahead := h.bytes / int64(h.records) * int64(h.skipped)
	at := h.start.Offset + max(ahead-nearBefore, 0)/format.UnitSize*format.UnitSize
	w := segment.NewWalker(v, h.origin, segment.Place{Offset: at}, segment.Limit{LSN: h.last + 1})
	w.Reach(at + nearBytes)
	record, err := h.find(&w)
	if err != nil {
		record = nil
	}
	return record, w.Buffer()
}
