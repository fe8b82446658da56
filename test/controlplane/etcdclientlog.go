package controlplane

import (
	"errors"
	_ "unsafe" // for go:linkname

	"go.uber.org/zap"
)

// etcdClientLogger is the logger of the API server's etcd clients. They warn of
// every write that a client of the API server gives up, for instance because
// the client was killed. The logger is made when the program starts and writes to
// standard error. It has no option or setter, so it is accessed by name. If a
// later Kubernetes renames it, redirectEtcdClients fails.
//
//go:linkname etcdClientLogger k8s.io/apiserver/pkg/storage/storagebackend/factory.etcd3ClientLogger
var etcdClientLogger *zap.Logger

// redirectEtcdClients makes the etcd clients write to the log. Only clients made
// afterwards do; they keep that logger for life. The returned function restores
// the earlier logger for other clients.
func redirectEtcdClients(log *componentLog) (restore func() error, err error) {
	earlier := etcdClientLogger
	if earlier == nil {
		return nil, errors.New("redirect the log of the API server's etcd clients: this version of k8s.io/apiserver has no such logger; adapt etcdClientLogger in test/controlplane")
	}
	etcdClientLogger = log.etcdLogger().Named("client")
	return func() error {
		etcdClientLogger = earlier
		return nil
	}, nil
}
