package bundle

import (
	"bytes"
	"testing"

	"martlet/object-server/bundle/format"
)

// A record of a peer is the same whether it is copied or goes on in the bytes in which it came.
func TestImportedDrafts(t *testing.T) {
	for i, d := range goldenDrafts(t) {
		if d.head.Type == format.TypeSpill || !d.head.Type.Named() {
			continue
		}
		d.head.Flags |= format.FlagLock
		d.stamp(7, 5, 0x11, 3)
		if parts := d.head.Layout(); parts.Length > parts.End {
			d.buffer.B[len(d.buffer.B)-1] = 0xff // padding may be anything
		}
		came := bytes.Clone(d.bytes())
		r, err := format.ParseRecord(came)
		check(t, err)

		copied := NewDraft(len(r.Data))
		copied.Write(r.Data)
		check(t, copied.SealImported(r))
		lent := ImportedDraft(r, came)
		if lent.Len() != copied.Len() {
			t.Errorf("record %d: %d bytes, not %d", i, lent.Len(), copied.Len())
		}
		copied.stamp(100, 90, 0x22, 40)
		lent.stamp(100, 90, 0x22, 40)
		if !bytes.Equal(lent.bytes(), copied.bytes()) {
			t.Errorf("record %d:\n%x\n%x", i, lent.bytes(), copied.bytes())
		}
		lent.Free()
		copied.Free()
	}
}
