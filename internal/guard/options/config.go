package options

import (
	"context"
	"net"
	"os"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/quartermaster-dra/quartermaster/internal/apiversions"
	"github.com/quartermaster-dra/quartermaster/internal/guard"
	"github.com/quartermaster-dra/quartermaster/internal/guard/server"
)

// lookupShare is how much less often than all else the guard looks up claims that its watch has not shown:
// whoever reaches it can have it do that.
const lookupShare = 5

// Config returns what the flags say of a guard, with connections of its own to the API server:
// nothing that others in this process send keeps it waiting.
func (o *Options) Config(ctx context.Context, connection *rest.Config) (*server.Config, error) {
	connection = rest.CopyConfig(connection)
	connection.UserAgent = "quartermaster-guard"
	connection.QPS, connection.Burst = o.qps, int(o.qps)
	client, err := connect(ctx, connection)
	if err != nil {
		return nil, err
	}
	few := rest.AddUserAgent(rest.CopyConfig(connection), "lookup")
	few.QPS, few.Burst = o.qps/lookupShare, max(1, int(o.qps/lookupShare))
	lookups, err := connect(ctx, few)
	if err != nil {
		return nil, err
	}
	leases, err := kubernetes.NewForConfig(apart(rest.AddUserAgent(rest.CopyConfig(connection), "leader-election")))
	if err != nil {
		return nil, err
	}
	return &server.Config{
		Client: client, Leases: leases, Lookups: lookups, Identity: identity(), Mode: guard.Mode(o.mode), Serving: o.serving, ClientCAFile: o.clientCAFile,
		RegisterURL: o.register == registerURL, FailurePolicy: admissionregistrationv1.FailurePolicyType(o.failurePolicy),
		Election: o.election, ServiceNames: o.serviceNames(), RequestTimeout: o.requestTimeout,
	}, nil
}

// apart gives a client a connection of its own. Clients of one configuration share a transport, and with
// it one connection, on which a list of all claims, or what is lost, keeps others waiting. The transport
// is shared by those who dial in the same way.
func apart(connection *rest.Config) *rest.Config {
	dial := connection.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	connection.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dial(ctx, network, address)
	}
	return connection
}

// connect returns a client set that works with the versions of the claim API that the server has.
func connect(ctx context.Context, connection *rest.Config) (kubernetes.Interface, error) {
	client, err := kubernetes.NewForConfig(connection)
	if err != nil {
		return nil, err
	}
	untyped, err := dynamic.NewForConfig(connection)
	if err != nil {
		return nil, err
	}
	return apiversions.Connect(ctx, client, untyped), nil
}

// identity is unique to this process.
func identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "guard"
	}
	return host + "_" + string(uuid.NewUUID())
}
