package versions

import (
	"errors"
	"fmt"

	"martlet/object-server/bundle/format"
)

// Rebuild makes the link of a record from its header and the record before it.
func Rebuild(reader Reader, h format.Header) (Link, error) {
	if h.Flags&format.FlagBlock == 0 {
		return NewLink(h, nil)
	}
	c := Chain{reader: reader}
	if h.Previous != 0 {
		before, err := reader.ReadLink(h.Previous)
		if err != nil {
			return Link{}, err
		}
		c.head, c.gap, c.cut = &before, before.Block.Gap, before.Block.Cut
	}
	a, err := c.repeat(&h)
	var older *OlderError
	if errors.As(err, &older) {
		err = fmt.Errorf("%w: head of a chain: %w", format.ErrQuarantined, err)
	}
	return Link{Head: h, Block: a.block}, err
}

// repeat continues the chain with a record as it was once continued.
func (c *Chain) repeat(h *format.Header) (Addition, error) {
	if h.Type == format.TypeTombstone {
		return c.Remove(h.VersionID, h.Timestamp)
	}
	old, err := c.Find(h.VersionID)
	switch {
	case err == nil && old.Timestamp == h.Timestamp:
		return c.Rewrite(old)
	case err != nil && !errors.Is(err, ErrNoVersion):
		return Addition{}, err
	}
	a, err := c.Add(h.VersionID, h.Timestamp)
	var older *OlderError
	if errors.As(err, &older) && h.Flags&format.FlagLock != 0 {
		return c.Revive(h.VersionID, h.Timestamp)
	}
	return a, err
}
