package bundle

import (
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
)

// Precede makes the chain one that goes on behind the draft, a removal that has been
// sealed and is not appended yet. What comes then must be appended in one batch with
// it, see Then.
func (d *Draft) Precede(c *versions.Chain) { c.Precede(&d.head, d.chain) }

// Then appends a record in one batch with others of its name, right behind them:
// d is the first of them, and last the one before, which is d where there is none.
func (d *Draft) Then(last, next *Draft) {
	last.next, next.first = next, d
	d.following += next.length()
}

// settle gives what the record says of the batch before it the LSNs that they got.
func (d *Draft) settle() {
	if d.first == nil {
		return
	}
	first := d.first.head.LSN
	d.head.Previous = versions.Settled(d.head.Previous, first)
	body := d.buffer.B[d.start+format.HeaderSize:][:d.head.BlockLength+d.head.MetadataLength]
	versions.Settle(body[:d.head.BlockLength], first)
	d.head.MetadataCRC = format.Checksum(body)
}
