//go:build unix && !linux

package controlplane

// reservePort does nothing: only Linux lets a server listen on a reserved port.
// Somebody else may take the port while the server is down.
func reservePort(int) (release func() error, err error) {
	return func() error { return nil }, nil
}
