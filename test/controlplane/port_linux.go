package controlplane

import "syscall"

// reservePort keeps a port on 127.0.0.1 for a server that is down at times: the
// kernel gives it to nobody who asks for any port. Connections are refused all the
// same, because nobody listens, and the server can listen beside the reservation.
func reservePort(port int) (release func() error, err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	// Two sockets may have one address if both say so and at most one listens.
	err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	}
	if err != nil {
		_ = syscall.Close(fd)
		return nil, err
	}
	return func() error { return syscall.Close(fd) }, nil
}
