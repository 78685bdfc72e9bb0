package device

import (
	"errors"
	"fmt"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
)

// nullIsOldError says that the null version is to be kept before a write replaces it.
type nullIsOldError struct{ timestamp format.Timestamp }

func (e *nullIsOldError) Error() string {
	return fmt.Sprintf("device: the null version of %s is an old version", e.timestamp)
}

// keepingNull does a write of the null version. Where a version has been written
// since the last one, that one is an old version, which a write of the present does
// not replace: it is stored under an id of its own first. write gets the time of
// the null version that has been seen to, and refuses with nullIsOldError.
func (d *Device) keepingNull(at Location, write func(kept format.Timestamp) (State, error)) (State, error) {
	var kept *format.Metadata
	var timestamp format.Timestamp
	for {
		state, err := write(timestamp)
		var old *nullIsOldError
		if !errors.As(err, &old) {
			state.Kept = kept
			return state, err
		}
		timestamp = old.timestamp
		if kept, err = d.keepNull(at); err != nil {
			return State{}, err
		}
	}
}

// checkNull refuses a write at t that would replace an old version.
func (d *Device) checkNull(c *versions.Chain, t, kept format.Timestamp) error {
	null, _ := c.Null()
	if d.options.KeptID == nil || null == kept {
		return nil
	}
	isOld, err := c.NullIsOld(t)
	if isOld || errors.Is(err, ErrQuarantined) { // it is not known, and to keep it loses nothing
		return &nullIsOldError{null}
	}
	return err
}

// keepNull stores the null version once more, as the version of its time, and
// returns it; nil if it is a delete marker, damaged, or removed under that id. Its
// data are copied as Copy does. ErrLocked if it is locked.
func (d *Device) keepNull(at Location) (*format.Metadata, error) {
	source, err := d.OpenVersion(at, format.VersionID{})
	var gone *NotFoundError
	if errors.As(err, &gone) || errors.Is(err, ErrQuarantined) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer source.Close()
	if source.metadata.Lock.Protects(d.now(), false) { // what is to replace it is refused
		return nil, ErrLocked
	}
	u, err := d.NewUpload(at, -1)
	if err != nil {
		return nil, err
	}
	defer u.Abort()
	err = u.fill(source)
	if errors.Is(err, ErrQuarantined) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m := *source.metadata
	m.VersionID = d.options.KeptID(m.Timestamp)
	_, err = u.Commit(&m)
	var older *OlderError
	switch {
	case errors.As(err, &older) && older.Existing != m.Timestamp: // it was removed
		return nil, nil
	case err != nil && older == nil: // that it is there is as good
		return nil, err
	}
	return &m, nil
}

// KeepNull makes the null version, current or not, the version of its time, and
// returns it; nil if there is none. t is the time of the request. Errors as of
// Upload.Commit.
func (d *Device) KeepNull(at Location, t format.Timestamp, name string) (*format.Metadata, error) {
	state, err := d.keepingNull(at, func(kept format.Timestamp) (State, error) {
		return d.erase(at, erasure{kind: format.TypeTombstone, time: t, name: name, renames: true, kept: kept})
	})
	return state.Kept, err
}
