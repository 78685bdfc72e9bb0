package martlet.s3a;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.contract.AbstractBondedFSContract;

/** The contract of S3A: contract.xml has its options, and those of the file system. */
final class S3aContract extends AbstractBondedFSContract {
    S3aContract(Configuration conf) {
        super(conf);
        addConfResource("contract.xml");
    }

    @Override
    public String getScheme() {
        return "s3a";
    }
}
