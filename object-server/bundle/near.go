package bundle

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
func (h *hop) near(file *handle) (*Record, *Buffer) {
	if h.records == 0 || h.bytes <= nearBytes {
		return nil, nil
	}
	v := window{file: file, size: h.end, length: nearBytes, buffer: GetBuffer(nearBytes)}
	ahead := h.bytes / int64(h.records) * int64(h.skipped)
	at := h.start + max(ahead-nearBefore, 0)/unitSize*unitSize
	for limit := at + nearBytes; at < limit; {
		p, err := v.at(at, headerSize)
		if err != nil {
			break
		}
		if [4]byte(p) != recordMagic {
			at += unitSize
			continue
		}
		head, err := parseHeader(p)
		switch {
		case err != nil || head.Salt != h.salt || !head.fits(at, h.end):
			at += unitSize
			continue
		case head.LSN < h.lsn:
			at += int64(head.Units) * unitSize
			continue
		case head.LSN > h.lsn || !head.Type.named():
			return nil, v.buffer
		}
		record, _, err := h.read(&v, at, &head)
		if err != nil {
			record = nil
		}
		return record, v.buffer
	}
	return nil, v.buffer
}
