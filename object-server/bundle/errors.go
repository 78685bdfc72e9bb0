package bundle

import "errors"

// Errors that callers tell apart with errors.Is.
var (
	// ErrQuarantined: stored data is damaged, or may be; it is kept but not served.
	ErrQuarantined = errors.New("bundle: damaged data in quarantine")
	// ErrUnsupported: the format is of a newer version, or uses a feature that
	// this build does not know. Nothing is changed.
	ErrUnsupported = errors.New("bundle: format not supported by this version")
	// ErrTooLarge: metadata or data exceed what a record can hold.
	ErrTooLarge = errors.New("bundle: metadata or data too large for a record")

	// ErrNotWritten: an append failed and left nothing of it in the log.
	ErrNotWritten = errors.New("bundle: nothing was written")

	// errDamaged: bytes are not what their checksums say. Callers see it as
	// ErrQuarantined.
	errDamaged = errors.New("checksum or structure is wrong")
)
