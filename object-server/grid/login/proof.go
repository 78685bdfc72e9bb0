package login

import (
	"encoding/base64"
	"errors"

	"martlet/object-server/grid/auth"
)

func readNonce(text string) (auth.Nonce, error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err == nil && len(b) != len(auth.Nonce{}) {
		err = errors.New("a nonce has 32 bytes")
	}
	if err != nil {
		return auth.Nonce{}, err
	}
	return auth.Nonce(b), nil
}
