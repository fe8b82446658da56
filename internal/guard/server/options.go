package server

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	cliflag "k8s.io/component-base/cli/flag"
	componentbaseconfig "k8s.io/component-base/config"
	electionoptions "k8s.io/component-base/config/options"

	"github.com/quartermaster-dra/quartermaster/internal/guard"
	"github.com/quartermaster-dra/quartermaster/internal/guard/election"
)

const (
	// Namespace is the default namespace of Lease and Secret.
	Namespace = "quartermaster-guard"
	// namespaceFile contains the namespace of a pod.
	namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	defaultPort   = 9443
	// Values of --register.
	registerService, registerURL = "service", "url"
)

// Options holds the flags. Create it with New.
type Options struct {
	prefix string

	qps            float32
	register       string
	service        string
	mode           string
	failurePolicy  string
	requestTimeout time.Duration
	clientCAFile   string
	serving        *genericoptions.SecureServingOptions
	election       componentbaseconfig.LeaderElectionConfiguration
}

// New returns the defaults, with Lease and Secret in the given namespace. The names of all flags begin with the
// prefix.
func New(namespace, prefix string) *Options {
	o := &Options{
		prefix: prefix,
		qps:    1000, register: registerService, service: "quartermaster-guard", mode: string(guard.Enforce),
		failurePolicy: string(admissionregistrationv1.Ignore), requestTimeout: time.Minute,
		serving: genericoptions.NewSecureServingOptions(),
		election: componentbaseconfig.LeaderElectionConfiguration{
			LeaderElect: true, ResourceLock: "leases", ResourceName: election.LeaseName, ResourceNamespace: namespace,
			LeaseDuration: metav1.Duration{Duration: 15 * time.Second},
			RenewDeadline: metav1.Duration{Duration: 10 * time.Second},
			RetryPeriod:   metav1.Duration{Duration: 2 * time.Second},
		},
	}
	// API servers need a port: Validate refuses 0.
	o.serving.BindPort, o.serving.Required = defaultPort, true
	return o
}

// PodNamespace returns the namespace of this process's pod, or Namespace if it runs in none.
func PodNamespace() string {
	if content, err := os.ReadFile(namespaceFile); err == nil {
		return strings.TrimSpace(string(content))
	}
	return Namespace
}

// Flags returns the flags by section.
func (o *Options) Flags() cliflag.NamedFlagSets {
	var own, prefixed cliflag.NamedFlagSets
	main := own.FlagSet("guard")
	main.Float32Var(&o.qps, "kube-api-qps", o.qps, "Requests per second of the guard to the API server, and the size of a burst.")
	main.StringVar(&o.register, "register", o.register, "How API servers reach the guard: \"service\", as the installed ValidatingWebhookConfiguration "+
		"quartermaster-guard says; or \"url\": the guard registers https://BIND-ADDRESS:SECURE-PORT there.")
	main.StringVar(&o.service, "service", o.service, "The guard's Service, as NAME in the namespace of its Lease or as NAMESPACE/NAME.")
	main.StringVar(&o.mode, "mode", o.mode, "\"Enforce\" denies allocations of devices that other claims hold. \"Warn\" lets them pass, and only counts and reports them.")
	main.StringVar(&o.failurePolicy, "failure-policy", o.failurePolicy, "With --register=url, for a configuration that does not exist yet: what API servers do while no guard answers, "+
		"\"Ignore\" (allocations pass) or \"Fail\" (there are none).")
	main.DurationVar(&o.requestTimeout, "request-timeout", o.requestTimeout, "How long API servers work on a request (their flag --request-timeout). It matters only for claims that the guard cannot write to.")
	secure := own.FlagSet("secure serving")
	o.serving.AddFlags(secure)
	secure.StringVar(&o.clientCAFile, "client-ca-file", o.clientCAFile, "File with the certificate authorities (PEM) that sign the client certificates of API servers. "+
		"If it is set, other clients get no answer, except at /healthz, /livez, /readyz and /metrics. It is read again when it changes.")
	electionoptions.BindLeaderElectionFlags(&o.election, own.FlagSet("leader election"))
	for _, section := range own.Order {
		own.FlagSets[section].VisitAll(func(f *pflag.Flag) {
			f.Name, f.Usage = o.prefix+f.Name, strings.ReplaceAll(f.Usage, "--", "--"+o.prefix)
			prefixed.FlagSet(section).AddFlag(f)
		})
	}
	return prefixed
}

// Validate returns an error about invalid flags.
func (o *Options) Validate() error {
	oneOf := func(flag, value string, allowed ...string) error {
		if slices.Contains(allowed, value) {
			return nil
		}
		return fmt.Errorf("--%s%s=%q is none of %s", o.prefix, flag, value, strings.Join(allowed, ", "))
	}
	errs := o.serving.Validate()
	errs = append(errs,
		oneOf("register", o.register, registerService, registerURL),
		oneOf("mode", o.mode, string(guard.Enforce), string(guard.Warn)),
		oneOf("failure-policy", o.failurePolicy, string(admissionregistrationv1.Ignore), string(admissionregistrationv1.Fail)))
	if !o.election.LeaderElect {
		errs = append(errs, fmt.Errorf("--%sleader-elect=false: guards have to elect the one that decides", o.prefix))
	}
	if o.requestTimeout <= 0 {
		errs = append(errs, fmt.Errorf("--%srequest-timeout=%s must be more than zero", o.prefix, o.requestTimeout))
	}
	return errors.Join(errs...)
}

// serviceNames returns the DNS names of the Service in the cluster.
func (o *Options) serviceNames() []string {
	namespace, name, found := strings.Cut(o.service, "/")
	if !found {
		namespace, name = o.election.ResourceNamespace, o.service
	}
	name += "." + namespace + ".svc"
	return []string{name, name + ".cluster.local"}
}
