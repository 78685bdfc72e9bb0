package format

import "errors"

// What may be wrong with stored bytes, or with those to be stored; callers tell it
// apart with errors.Is.
var (
	// ErrQuarantined: stored data is damaged, or may be; it is kept but not served.
	ErrQuarantined = errors.New("bundle: damaged data in quarantine")
	// ErrUnsupported: the format is of a newer version, or uses a feature that
	// this build does not know. Nothing is changed.
	ErrUnsupported = errors.New("bundle: format not supported by this version")
	// ErrTooLarge: metadata or data exceed what a record can hold.
	ErrTooLarge = errors.New("bundle: metadata or data too large for a record")

	// ErrDamaged: bytes are not what their checksums say. Callers see it as
	// ErrQuarantined.
	ErrDamaged = errors.New("checksum or structure is wrong")
)

// IsDamage tells whether an error is about bytes that are not as they should be.
func IsDamage(err error) bool { return errors.Is(err, ErrDamaged) || errors.Is(err, ErrUnsupported) }
