package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Digest identifies the content of a file.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// CheckGiven returns an error if given has a Digest for a path, and the data read from there have another one.
func CheckGiven(given map[string]string, path string, data []byte) error {
	if digest, ok := given[path]; ok && digest != Digest(data) {
		return fmt.Errorf("%s has changed since the batch or the schedule was made: start the batch or add the schedule "+
			"again", path)
	}
	return nil
}
