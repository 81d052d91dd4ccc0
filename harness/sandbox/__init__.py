"""Where programs run that a model wrote: small, short-lived processes that keep nothing and reach nothing."""
