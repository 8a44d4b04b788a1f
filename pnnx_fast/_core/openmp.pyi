region: object
