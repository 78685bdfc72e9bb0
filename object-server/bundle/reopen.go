package bundle

// Reopen is Open for a bundle that was repaired while the device is in use. Files
// of uploads that go on are left alone; the next Open finds those of no use.
func Reopen(files *Files, id ID, config Config) (*Bundle, error) {
	b := newBundle(files, id, config)
	if _, err := b.recover(); err != nil {
		b.Retire()
		return nil, err
	}
	b.upkeep.Store(true)
	return b, nil
}

// Acknowledged is the newest LSN that was acknowledged, for Files.Floor. Later
// ones may have been since. What could not be read when the bundle was opened may be
// readable the next time, and then tells by itself how far it goes.
func (b *Bundle) Acknowledged() uint64 {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.acknowledged
}
